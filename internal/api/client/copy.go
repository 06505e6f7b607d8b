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

// Files are copied by the program tar of the container, which reads and writes below one folder there.

// maxStderr is how many bytes of tar's stderr are kept for the error message.
const maxStderr = 2 << 10

// CopyFrom copies a file or folder of a container to the path to of this machine. It calls warn for
// each entry that was left out.
func (n *NodeAPI) CopyFrom(ctx context.Context, p *v1.Pod, container, from, to string, warn func(string)) error {
	dir, base := splitPath(from)
	name := base
	if base == "." {
		name = "." // the root, or a folder by a path that does not contain its name
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
			stop(err) // otherwise tar would block on writing
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
		return err // an error of unpack only follows from it
	}
	return failed
}

// CopyTo copies a file or folder of this machine to the path to of a container.
func (n *NodeAPI) CopyTo(ctx context.Context, p *v1.Pod, container, from, to string) error {
	if _, err := os.Stat(from); err != nil {
		return fmt.Errorf("nothing to copy: %w", err)
	}
	isFolder := strings.HasSuffix(to, "/")
	if !isFolder {
		// Without the command 'test' in the container, to is the path of the copy, not a folder for it.
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
		_ = in.CloseWithError(err) // with nil, the reader gets io.EOF
		packed <- err
	}()
	err := n.tar(ctx, p, container, []string{"tar", "xmf", "-", "-C", dir}, out, nil)
	_ = out.CloseWithError(errDone)
	if failed := <-packed; failed != nil && !errors.Is(failed, errDone) {
		return failed
	}
	return err
}

// errDone is the error of pack if tar has ended before all was packed.
var errDone = errors.New("tar has ended")

// tar runs tar in a container. Its error says how tar has failed.
func (n *NodeAPI) tar(ctx context.Context, p *v1.Pod, container string, command []string, in io.Reader, out io.Writer) error {
	stderr := &headBuffer{limit: maxStderr}
	err := n.Exec(ctx, p, container, command, remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: stderr})
	var exit *ExitError
	switch {
	case err == nil:
		return nil
	case noProgram(err, stderr.String()):
		name := find.ManifestName(p)
		return fmt.Errorf("container %s of pod %s has no 'tar', which cp needs: add a container that has with 'berth debug %s --image=IMAGE --target=%s -it', and copy through /proc/1/root there", container, name, name, container)
	case errors.As(err, &exit) && stderr.String() != "":
		return fmt.Errorf("tar in container %s failed: %v", container, stderr)
	case errors.As(err, &exit):
		return fmt.Errorf("tar in container %s failed with exit code %d", container, exit.Code)
	}
	return err
}

// noProgram reports whether a command could not be run because the container does not have the program.
// Runtimes report that by a text, and some by an exit code.
func noProgram(err error, stderr string) bool {
	var exit *ExitError
	if errors.As(err, &exit) && exit.Code != 126 && exit.Code != 127 {
		return false
	}
	text := err.Error() + stderr
	return exit != nil || strings.Contains(text, "executable file not found") || strings.Contains(text, `"tar": stat`) || strings.Contains(text, "no such file or directory")
}

// splitPath splits a path in a container into folder and name, such that tar takes neither for an
// option.
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

// openDestination opens the folder for a copy, and returns the name of the copy in it.
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

// headBuffer keeps the first bytes that are written to it. Writes may come for a moment after the
// streams have ended.
type headBuffer struct {
	limit int
	mu    sync.Mutex
	text  []byte
}

// Write implements io.Writer.
func (b *headBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, text[:min(b.limit-len(b.text), len(text))]...)
	return len(text), nil
}

func (b *headBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(string(b.text))
}
