package execute

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"berth/internal/core/plan"
	"berth/internal/lib/pod"
	"berth/internal/lib/podfile"
	"berth/internal/runtime/render"
)

// A container may write a message about its end to a file (terminationMessagePath). The file is
// mounted from the pod's directory, one for each attempt of the container, and read once the
// container is dead. It is kept for as long as the runtime has the container, for a restarted
// agent.

const (
	maxTerminationMessage = 4 << 10 // bytes at the end of the file
	logLines              = 80      // at the end of the log: FallbackToLogsOnError
	logBytes              = 2 << 10
)

// terminationMessageDir is the directory of a container's files, which are named after its attempts. It is
// relative to PodsDir.
func terminationMessageDir(uid pod.UID, container string) string {
	return filepath.Join(string(uid), "containers", container)
}

// prepareTerminationMessage makes the file that a container may write to.
func (e *Executor) prepareTerminationMessage(t *task, spec *v1.Container, attempt int32) (render.TerminationMessage, error) {
	if spec.TerminationMessagePath == "" {
		return render.TerminationMessage{}, nil
	}
	dir, name := filepath.Join(e.Host.PodsDir, terminationMessageDir(t.pod.UID, spec.Name)), strconv.Itoa(int(attempt))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return render.TerminationMessage{}, fmt.Errorf("make the file for the last words of container %s: %w", spec.Name, err)
	}
	e.removeTerminationMessages(t, spec.Name, func(attempt int32) bool { return usesTerminationMessage(t, spec.Name, attempt, "") })
	if err := makeMessageFile(dir, name); err != nil {
		return render.TerminationMessage{}, fmt.Errorf("make the file for the last words of container %s: %w", spec.Name, err)
	}
	return render.TerminationMessage{HostPath: filepath.Join(dir, name), ContainerPath: spec.TerminationMessagePath}, nil
}

// makeMessageFile makes an empty file that all users may write to. A file of that name, left by a
// start that failed, is replaced.
func makeMessageFile(dir, name string) error {
	if err := podfile.RemoveAll(dir, name); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	// All users of the container may write to it, whatever the umask of the agent is.
	return errors.Join(file.Chmod(0o666), file.Close())
}

// removeTerminationMessages removes the files of a container but for those of kept attempts. A container
// can make its file as large as it wants. A file that can't be removed now is removed with the pod.
func (e *Executor) removeTerminationMessages(t *task, container string, kept func(attempt int32) bool) {
	dir := terminationMessageDir(t.pod.UID, container)
	_ = podfile.Each(e.Host.PodsDir, dir, func(file fs.DirEntry) error {
		if count, err := strconv.ParseInt(file.Name(), 10, 32); err != nil || !kept(int32(count)) {
			_ = podfile.RemoveAll(filepath.Join(e.Host.PodsDir, dir), file.Name())
		}
		return nil
	})
}

// usesTerminationMessage reports whether the file of an attempt belongs to a container that the
// runtime has, other than removed, or to one that this sync starts.
func usesTerminationMessage(t *task, container string, attempt int32, removed string) bool {
	return slices.ContainsFunc(t.have.Containers, func(c pod.Container) bool {
		return c.Name == container && c.Attempt == attempt && c.ID != removed
	}) || slices.ContainsFunc(t.plan.Actions, func(a plan.Action) bool {
		start, ok := a.(plan.StartContainer)
		return ok && start.Name == container && start.Attempt == attempt
	})
}

// withTerminationMessages adds the messages of dead containers to an observation.
func (e *Executor) withTerminationMessages(p *v1.Pod, have pod.Observed, m *memory) pod.Observed {
	containers := make([]pod.Container, len(have.Containers))
	copy(containers, have.Containers)
	for i := range containers {
		c := &containers[i]
		spec := pod.ContainerSpec(p, c.Name)
		if spec == nil || c.State != pod.ContainerExited || c.Message != "" {
			continue
		}
		words, known := m.terminationMessages[c.ID]
		if !known {
			words = e.terminationMessage(p.UID, spec, c)
			m.terminationMessages[c.ID] = words
		}
		c.Message = words
		if words == "" && c.Reason == pod.ReasonOOMKilled {
			c.Message = e.Host.OOMVictim(c.ID) // it may be known later
		}
	}
	have.Containers = containers
	return have
}

func (e *Executor) terminationMessage(uid pod.UID, spec *v1.Container, c *pod.Container) string {
	// A message that can't be read is as good as none.
	text, _ := podfile.Tail(e.Host.PodsDir, filepath.Join(terminationMessageDir(uid, c.Name), strconv.Itoa(int(c.Attempt))), maxTerminationMessage)
	words := string(text)
	if words == "" && c.ExitCode != 0 && spec.TerminationMessagePolicy == v1.TerminationMessageFallbackToLogsOnError && c.LogPath != "" {
		words = e.Host.LogTail(c.LogPath, logLines, logBytes)
	}
	return words
}
