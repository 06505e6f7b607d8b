package execute

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/podfile"
	"berth/internal/render"
)

// Log shippers look for container logs in one directory, by names that tell pod,
// namespace, container and id.

// linkLog makes the link to the log of a container.
func (e *Executor) linkLog(p *v1.Pod, spec *v1.Container, id string, restartCount int32) error {
	if err := os.MkdirAll(e.LinksDir, 0o755); err != nil {
		return fmt.Errorf("make the directory of log links: %w", err)
	}
	log := filepath.Join(e.Node.LogDir(p.Namespace, p.Name, p.UID), render.LogFile(spec.Name, restartCount))
	link := filepath.Join(e.LinksDir, fmt.Sprintf("%s_%s_%s-%s.log", p.Name, p.Namespace, spec.Name, id))
	if err := os.Symlink(log, link); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("link the log: %w", err)
	}
	return nil
}

// unlinkLog removes the link to the log of a container, whatever pod it was of.
func (e *Executor) unlinkLog(id string) error {
	err := podfile.Each(e.LinksDir, ".", func(link fs.DirEntry) error {
		if !strings.HasSuffix(link.Name(), "-"+id+".log") {
			return nil
		}
		return os.Remove(filepath.Join(e.LinksDir, link.Name()))
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the link to a log: %w", err)
	}
	return nil
}
