package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/remotecommand"

	"berth/internal/api/find"
)

// Files are copied by tar, which has to be in the container. It writes and reads
// only below one folder there.

// maxComplaint is how much is kept of what tar writes to stderr.
const maxComplaint = 2 << 10

// CopyFrom copies what is at from in a container to the path to of this machine.
// It warns of what was left out.
func (n *NodeAPI) CopyFrom(ctx context.Context, p *v1.Pod, container, from, to string, warn func(string)) error {
	dir, base := splitPath(from)
	name := base
	if base == "." {
		name = "." // the root, or a folder whose name only the container knows
	}
	root, name, err := openDestination(to, name)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()

	out, in := io.Pipe()
	tarring, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	unpacked := make(chan error, 1)
	go func() {
		err := unpack(out, root, base, name, warn)
		if err != nil && !errors.Is(err, errEmpty) {
			stop(err) // or tar would go on without a reader
		}
		_, _ = io.Copy(io.Discard, out) // archives are padded
		unpacked <- err
	}()
	err = n.tar(tarring, p, container, []string{"tar", "cf", "-", "-C", dir, base}, nil, in)
	stopped := context.Cause(tarring) != nil
	_ = in.Close()
	failed := <-unpacked
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !stopped:
		return err // and what came of it is not the cause
	}
	return failed
}

// CopyTo copies what is at from on this machine to the path to of a container.
func (n *NodeAPI) CopyTo(ctx context.Context, p *v1.Pod, container, from, to string) error {
	if _, err := os.Stat(from); err != nil {
		return fmt.Errorf("nothing to copy: %w", err)
	}
	isFolder := strings.HasSuffix(to, "/")
	if !isFolder {
		// Without the command 'test', it is taken for what it will become.
		err := n.Exec(ctx, p, container, []string{"test", "-d", to}, remotecommand.StreamOptions{Stdout: io.Discard, Stderr: io.Discard})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		isFolder = err == nil
	}
	dir, base := splitPath(to)
	if isFolder {
		absolute, err := filepath.Abs(from)
		if err != nil {
			return fmt.Errorf("find %s: %w", from, err)
		}
		dir, base = to, filepath.Base(absolute)
	}
	out, in := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := pack(in, from, base)
		_ = in.CloseWithError(err) // nil is the end
		packed <- err
	}()
	err := n.tar(ctx, p, container, []string{"tar", "xmf", "-", "-C", dir}, out, nil)
	_ = out.CloseWithError(errDone)
	if failed := <-packed; failed != nil && !errors.Is(failed, errDone) {
		return failed
	}
	return err
}

// errDone is the error of pack if tar has ended before it.
var errDone = errors.New("tar has ended")

// tar runs it, and explains how it failed.
func (n *NodeAPI) tar(ctx context.Context, p *v1.Pod, container string, command []string, in io.Reader, out io.Writer) error {
	complaint := &beginning{most: maxComplaint}
	err := n.Exec(ctx, p, container, command, remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: complaint})
	var exit *ExitError
	switch {
	case err == nil:
		return nil
	case noProgram(err, complaint.String()):
		name := find.ManifestName(p)
		return fmt.Errorf("container %s of pod %s has no 'tar', which cp needs: add a container that has with 'berth debug %s --image=IMAGE --target=%s -it', and copy through /proc/1/root there", container, name, name, container)
	case errors.As(err, &exit) && complaint.String() != "":
		return fmt.Errorf("tar in container %s failed: %v", container, complaint)
	case errors.As(err, &exit):
		return fmt.Errorf("tar in container %s failed with exit code %d", container, exit.Code)
	}
	return err
}

// noProgram tells whether a command could not be run for want of its program.
// Runtimes say so in words, and some by an exit code.
func noProgram(err error, complaint string) bool {
	var exit *ExitError
	if errors.As(err, &exit) && exit.Code != 126 && exit.Code != 127 {
		return false
	}
	text := err.Error() + complaint
	return exit != nil || strings.Contains(text, "executable file not found") || strings.Contains(text, `"tar": stat`) || strings.Contains(text, "no such file or directory")
}

// splitPath returns the folder that something in a container is in, and its name
// there. Neither looks like an option.
func splitPath(p string) (dir, base string) {
	p = path.Clean(p)
	dir, base = path.Dir(p), path.Base(p)
	if base == "/" || base == "." || base == ".." {
		dir, base = p, "."
	}
	if strings.HasPrefix(dir, "-") {
		dir = "./" + dir
	}
	if strings.HasPrefix(base, "-") {
		base = "./" + base
	}
	return dir, base
}

// openDestination opens the folder that a copy goes into, and returns what the
// copy is called there.
func openDestination(to, name string) (*os.Root, string, error) {
	dir := to
	if info, err := os.Stat(to); err != nil || !info.IsDir() {
		if strings.HasSuffix(to, "/") {
			return nil, "", fmt.Errorf("%s is not a folder", to)
		}
		dir, name = filepath.Dir(to), filepath.Base(to)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", fmt.Errorf("open the destination: %w", err)
	}
	return root, name, nil
}

// beginning keeps the first bytes that are written to it. Writes may come for a moment after the
// streams have ended.
type beginning struct {
	most int
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (b *beginning) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, text[:min(b.most-len(b.text), len(text))]...)
	return len(text), nil
}

func (b *beginning) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(string(b.text))
}
