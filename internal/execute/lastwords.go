package execute

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pod"
	"berth/internal/render"
)

// A container may leave a message about its end in a file. It is mounted from the
// pod's directory, one for each life of the container, and read once it is dead.

const (
	maxLastWords = 4 << 10 // of the file: the end of it
	logLines     = 80      // of the log, if the file is empty and that was asked for
	logBytes     = 2 << 10
)

func (e *Executor) lastWordsPath(uid pod.UID, container string, restartCount int32) string {
	return filepath.Join(e.podDir(uid), "containers", container, strconv.Itoa(int(restartCount)))
}

// prepareLastWords makes the file that a container may write to.
func (e *Executor) prepareLastWords(p *v1.Pod, spec *v1.Container, restartCount int32) (render.LastWords, error) {
	if spec.TerminationMessagePath == "" {
		return render.LastWords{}, nil
	}
	path := e.lastWordsPath(p.UID, spec.Name, restartCount)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return render.LastWords{}, fmt.Errorf("make the file for the last words of container %s: %w", spec.Name, err)
	}
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		return render.LastWords{}, fmt.Errorf("make the file for the last words of container %s: %w", spec.Name, err)
	}
	// Whoever the container runs as may write to it, whatever our umask says.
	if err := os.Chmod(path, 0o666); err != nil {
		return render.LastWords{}, fmt.Errorf("make the file for the last words of container %s: %w", spec.Name, err)
	}
	return render.LastWords{HostPath: path, ContainerPath: spec.TerminationMessagePath}, nil
}

// withLastWords adds the messages of dead containers to an observation.
func (e *Executor) withLastWords(p *v1.Pod, have pod.Observed, m *memory) pod.Observed {
	containers := make([]pod.Container, len(have.Containers))
	copy(containers, have.Containers)
	for i := range containers {
		c := &containers[i]
		spec := pod.ContainerSpec(p, c.Name)
		if spec == nil || c.State != pod.ContainerExited || c.Message != "" {
			continue
		}
		words, known := m.lastWords[c.ID]
		if !known {
			words = e.lastWords(p.UID, spec, c)
			m.lastWords[c.ID] = words
		}
		c.Message = words
	}
	have.Containers = containers
	return have
}

func (e *Executor) lastWords(uid pod.UID, spec *v1.Container, c *pod.Container) string {
	words := tail(e.lastWordsPath(uid, c.Name, c.RestartCount), maxLastWords)
	if words == "" && c.ExitCode != 0 && spec.TerminationMessagePolicy == v1.TerminationMessageFallbackToLogsOnError && c.LogPath != "" {
		words = e.LastLines(c.LogPath, logLines, logBytes)
	}
	return words
}

// tail returns the end of a file. One that can't be read says nothing: a message
// is a courtesy. The container may have put anything in its place, so only plain
// files are read.
func tail(path string, limit int64) string {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	if _, err := file.Seek(-min(limit, info.Size()), io.SeekEnd); err != nil {
		return ""
	}
	text := make([]byte, limit)
	n, err := io.ReadFull(file, text)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return ""
	}
	return string(text[:n])
}
