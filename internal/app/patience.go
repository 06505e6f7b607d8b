package app

import (
	"context"
	"fmt"
	"time"
)

// userPatience is how long somebody who waits for an answer of this node waits for the
// container runtime. The agent itself is more patient.
const userPatience = 20 * time.Second

// forUser asks the runtime for somebody who waits.
func forUser[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	asking, cancel := context.WithTimeout(ctx, userPatience)
	defer cancel()
	answer, err := ask(asking)
	if err != nil && asking.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the container runtime has not answered for %s, 'berth get node' tells more: %w", userPatience, err)
	}
	return answer, err
}
