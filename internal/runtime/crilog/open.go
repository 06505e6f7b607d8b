package crilog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"berth/internal/lib/podfile"
)

// open opens the file of a log. The directory of the pod, that of the container in it, and
// the file are made by us and the runtime. A pod that has the logs of the node as a hostPath
// can put links, pipes and devices in their place, which are refused. Links on the way to the
// directory of all logs are the administrator's. The links in the directory of log links
// (/var/log/containers) are for log shippers: nothing is read through them.
func open(path string) (*os.File, error) {
	container, file := filepath.Split(path)
	pod, container := filepath.Split(filepath.Clean(container))
	base, pod := filepath.Split(filepath.Clean(pod))
	if base == "" {
		base = "."
	}
	return podfile.Open(base, filepath.Join(pod, container, file))
}

// Check returns why a log can't be read: it is not there (fs.ErrNotExist), or not a log.
func Check(path string) error {
	file, err := open(path)
	if err != nil {
		return refusal(path, err)
	}
	return file.Close()
}

// refusal says what is wrong with a log that can't be opened.
func refusal(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%s is not as the runtime made it: %w", path, err)
}
