package cri

import (
	"context"
	"fmt"
	"time"
)

// userTimeout is how long the request of a user waits for the container runtime. The agent itself waits
// longer.
const userTimeout = 20 * time.Second

// WithUserTimeout calls the runtime for the request of a user.
func WithUserTimeout[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	asking, cancel := context.WithTimeout(ctx, userTimeout)
	defer cancel()
	answer, err := ask(asking)
	if err != nil && asking.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the container runtime has not answered for %s, see 'berth get node': %w", userTimeout, err)
	}
	return answer, err
}
