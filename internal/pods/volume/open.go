package volume

import (
	"os"

	"golang.org/x/sys/unix"
)

// openDir opens a directory in which only the agent makes entries.
func openDir(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_DIRECTORY|os.O_RDONLY, 0)
}
