package roots

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// InUse reports whether there are files of pods or of the runtime in a root directory.
func InUse(root string) (bool, error) {
	for _, dir := range []string{"run", "pods"} {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, fmt.Errorf("look for pods in the root directory: %w", err)
		}
		if len(entries) > 0 {
			return true, nil
		}
	}
	return false, nil
}
