package execute

import (
	"errors"
	"fmt"
	"os"

	"berth/internal/runtime/render"
)

// ReadResolvConf reads the resolver settings of the machine, which pods take over. It returns none if
// there is no such file.
func ReadResolvConf(path string) (render.DNS, error) {
	if path == "" {
		return render.DNS{}, nil
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return render.DNS{}, nil
	}
	if err != nil {
		return render.DNS{}, fmt.Errorf("read the machine's resolver settings: %w", err)
	}
	defer file.Close()
	return render.ParseResolvConf(file)
}
