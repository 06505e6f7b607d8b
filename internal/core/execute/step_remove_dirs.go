package execute

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// removeDirs removes the directories of a pod with their content, and fails at a mount: behind it is
// data that does not belong to the pod's directory.
func removeDirs(e *Executor, _ context.Context, t *task) error {
	p := t.pod
	if err := checkPathSafe(p); err != nil {
		return err
	}
	for _, dir := range []string{e.podDir(p.UID), e.Node.LogDir(p.Namespace, p.Name, p.UID)} {
		if err := e.Host.RemoveDir(dir); err != nil {
			return fmt.Errorf("remove what the pod left: %w", err)
		}
	}
	return nil
}

// checkPathSafe refuses names that would lead out of the directories of pods. The names
// of an orphan come from the runtime, unchecked.
func checkPathSafe(p *v1.Pod) error {
	for _, name := range []string{string(p.UID), p.Namespace, p.Name} {
		if name == "." || name == ".." || strings.ContainsRune(name, filepath.Separator) {
			return fmt.Errorf("%q can't be a part of a path: remove what pod %s left by hand", name, pod.Ref(p))
		}
	}
	if p.UID == "" {
		return errors.New("a pod without a UID has no directory of its own")
	}
	return nil
}
