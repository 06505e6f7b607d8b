package execute

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/runtime/render"
)

// Log shippers look for container logs in one directory, by names that tell pod,
// namespace, container and id.

// linkLog makes the link to the log of a container.
func (e *Executor) linkLog(p *v1.Pod, spec *v1.Container, id string, attempt int32) error {
	if err := os.MkdirAll(e.Host.LogLinksDir, 0o755); err != nil {
		return fmt.Errorf("make the directory of log links: %w", err)
	}
	log := filepath.Join(e.Node.LogDir(p.Namespace, p.Name, p.UID), render.LogFile(spec.Name, attempt))
	if err := os.Symlink(log, e.logLink(p, spec.Name, id)); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("link the log: %w", err)
	}
	return nil
}

func (e *Executor) logLink(p *v1.Pod, container, id string) string {
	return filepath.Join(e.Host.LogLinksDir, fmt.Sprintf("%s_%s_%s-%s.log", p.Name, p.Namespace, container, id))
}

// unlinkLog removes the link to the log of a container. It looks for no other names: the
// directory holds the links of all pods, also of other agents. A link that does not lead to
// the logs of this agent is left alone.
func (e *Executor) unlinkLog(p *v1.Pod, container, id string) error {
	link := e.logLink(p, container, id)
	if target, err := os.Readlink(link); err != nil || !strings.HasPrefix(target, e.Node.LogsDir+"/") {
		return nil //nolint:nilerr // it is gone, or it is no link of ours
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the link to a log: %w", err)
	}
	return nil
}
