package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tricks are what `hostile` can do to the agent of its node. Each says "done" on stdout when it has
// been played to the end, and lives on if there is more to it.
var tricks = map[string]func(context.Context, []string) (int, error){
	"sparse":   sparse,
	"names":    names,
	"deep":     deep,
	"pipes":    pipes,
	"endless":  endless,
	"forks":    forks,
	"message":  message,
	"output":   output,
	"fill":     fill,
	"kill":     killAll,
	"swap":     swap,
	"escaped":  escaped,
	"call":     callOneself,
	"replaced": replaced,
}

func hostile(ctx context.Context, args []string) (int, error) {
	trick, ok := tricks[args[0]]
	if !ok {
		return 0, fmt.Errorf("there is no trick %q", args[0])
	}
	return trick(ctx, args[1:])
}

// done says that the trick has been played, and waits for the end.
func done(ctx context.Context) (int, error) {
	fmt.Println("done")
	<-ctx.Done()
	return 0, nil
}

// sparse makes files as large as the file system allows, which cost nothing, and fails: before
// the container is restarted, some of them are read. It lives on after the first restart, which it knows by
// the folder that it is given.
func sparse(ctx context.Context, args []string) (int, error) {
	dir, files := args[0], args[1:]
	files = append(files, filepath.Join(dir, "sparse"))
	for _, name := range files {
		if err := stretch(name); err != nil {
			return 0, err
		}
	}
	lives, err := os.OpenFile(filepath.Join(dir, "lives"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return 0, err
	}
	defer lives.Close()
	if _, err := lives.WriteString("x"); err != nil {
		return 0, err
	}
	if info, err := lives.Stat(); err != nil || info.Size() > 1 {
		code, derr := done(ctx)
		return code, errors.Join(err, derr)
	}
	return 1, nil
}

// stretch makes a file as large as it can be.
func stretch(name string) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	for size := int64(8 << 40); ; size /= 2 {
		err := file.Truncate(size)
		if err == nil || size < 1<<30 {
			return err
		}
	}
}

// names makes many names in one folder.
func names(ctx context.Context, args []string) (int, error) {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return 0, err
	}
	if err := os.Chdir(args[0]); err != nil {
		return 0, err
	}
	// Links are names like others, and cheap; a file can have some ten thousand. Long names take more
	// memory to list, and no more time to make.
	const most, long = 50_000, "a-name-among-many-others-"
	var of string
	for i := range n {
		name := long + strconv.Itoa(i)
		if i%most == 0 {
			of, err = name, os.WriteFile(name, nil, 0o600)
		} else {
			err = os.Link(of, name)
		}
		if err != nil {
			return 0, err
		}
	}
	return done(ctx)
}

// deep makes folders in folders, deeper than a path can name.
func deep(ctx context.Context, args []string) (int, error) {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return 0, err
	}
	if err := os.Chdir(args[0]); err != nil {
		return 0, err
	}
	for range n {
		const name = "a-folder-in-a-folder"
		if err := syscall.Mkdir(name, 0o700); err != nil {
			return 0, err
		}
		if err := syscall.Chdir(name); err != nil {
			return 0, err
		}
	}
	return done(ctx)
}

// pipes leaves in a folder what must not be opened: a pipe, a socket, links to devices that have no end
// and to files of the machine.
func pipes(ctx context.Context, args []string) (int, error) {
	for _, dir := range args {
		at := func(name string) string { return filepath.Join(dir, name) }
		err := errors.Join(
			unix.Mkfifo(at("pipe"), 0o666),
			os.Symlink("/dev/zero", at("zero")),
			os.Symlink("/etc/passwd", at("passwd")),
			os.Symlink("/proc/kmsg", at("kmsg")),
			os.Symlink(".", at("loop")),
			unix.Mknod(at("socket"), unix.S_IFSOCK|0o666, 0),
		)
		if err != nil {
			return 0, err
		}
	}
	return done(ctx)
}

// endless writes so many MiB without an end of line.
func endless(ctx context.Context, args []string) (int, error) {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return 0, err
	}
	piece := bytes.Repeat([]byte("x"), 1<<20)
	for range n {
		if _, err := os.Stdout.Write(piece); err != nil {
			return 0, err
		}
	}
	return done(ctx)
}

// forks starts processes that start processes, until the kernel allows no more.
func forks(ctx context.Context, args []string) (int, error) {
	depth := 0
	if len(args) > 0 {
		var err error
		if depth, err = strconv.Atoi(args[0]); err != nil {
			return 0, err
		}
	}
	for ctx.Err() == nil {
		cmd := exec.Command("/proc/self/exe", "hostile", "forks", strconv.Itoa(depth+1))
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			break // the limit, which is what was wanted
		}
		go func() { _ = cmd.Wait() }()
		if depth > 0 {
			break // two of each would be too fast to see anything of it
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	if depth == 0 {
		return done(ctx)
	}
	<-context.Background().Done() // it takes more than SIGTERM
	return 0, nil
}

// message leaves so many MiB as the message of its end, and says as many on stderr in one line.
func message(_ context.Context, args []string) (int, error) {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return 0, err
	}
	piece := bytes.Repeat([]byte("ä"), 1<<19)
	log, err := os.OpenFile(args[0], os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	for range n {
		if _, err := log.Write(piece); err != nil {
			return 0, err
		}
		if _, err := os.Stderr.Write(piece); err != nil {
			return 0, err
		}
	}
	return 1, nil
}

// output writes so many MiB to stdout and as many to stderr, or without end if that is 0, and succeeds.
func output(ctx context.Context, args []string) (int, error) {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return 0, err
	}
	piece := bytes.Repeat([]byte("y"), 1<<20)
	for i := 0; ctx.Err() == nil && (n == 0 || i < n); i++ {
		for _, to := range []io.Writer{os.Stdout, os.Stderr} {
			if _, err := to.Write(piece); err != nil {
				return 0, err
			}
		}
	}
	return 0, nil
}

// fill writes to each of the files until there is no room, or so many MiB are in it.
func fill(ctx context.Context, args []string) (int, error) {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return 0, err
	}
	piece := bytes.Repeat([]byte("127.0.0.1 z\n"), 1<<20/12)
	for _, name := range args[1:] {
		file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return 0, err
		}
		for range n {
			if _, err := file.Write(piece); err != nil {
				fmt.Println(name, err)
				break
			}
		}
		if err := file.Close(); err != nil {
			return 0, err
		}
	}
	return done(ctx)
}

// killAll kills everything that it can see, again and again. Outside of a pid namespace of its own that
// would be the machine, so it makes sure that it is the first process, or that the pause program is.
func killAll(ctx context.Context, _ []string) (int, error) {
	first, err := os.ReadFile("/proc/1/cmdline")
	if err != nil {
		return 0, err
	}
	if os.Getpid() != 1 && string(first) != "/pause\x00" {
		return 0, fmt.Errorf("this is no pid namespace of a pod: process 1 is %q", first)
	}
	fmt.Println("done")
	for ctx.Err() == nil {
		_ = syscall.Kill(-1, syscall.SIGKILL) // an error means that there is no process
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return 0, nil
}

// swap makes a folder in dir be a link to the root of the machine every other moment.
func swap(ctx context.Context, args []string) (int, error) {
	if err := os.Chdir(args[0]); err != nil {
		return 0, err
	}
	if err := os.MkdirAll("spot", 0o755); err != nil {
		return 0, err
	}
	if err := os.Symlink("/", "link"); err != nil && !errors.Is(err, os.ErrExist) {
		return 0, err
	}
	fmt.Println("done")
	for ctx.Err() == nil {
		if err := unix.Renameat2(unix.AT_FDCWD, "spot", unix.AT_FDCWD, "link", unix.RENAME_EXCHANGE); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// escaped looks for a folder of the machine in a volume. It fails if there is none, to be given the volume
// again.
func escaped(ctx context.Context, args []string) (int, error) {
	if _, err := os.Stat(filepath.Join(args[0], "proc")); err == nil {
		fmt.Println("escaped")
		<-ctx.Done()
		return 0, nil
	}
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
	}
	return 1, nil
}

// callOneself runs this program under another name, with arguments: for readers of the
// processes of the machine it is that program.
func callOneself(_ context.Context, args []string) (int, error) {
	name := args[0]
	if err := copyProgram(name); err != nil {
		return 0, err
	}
	fmt.Println("done")
	return 0, syscall.Exec(name, append([]string{name}, args[1:]...), os.Environ())
}

func copyProgram(to string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, bufio.NewReader(from))
	return errors.Join(err, file.Close())
}

// replaced puts a pipe in the place of the first file that a pattern finds, a link in that of the
// second, and so on: those are the logs of containers.
func replaced(ctx context.Context, args []string) (int, error) {
	var found []string
	for _, pattern := range args {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return 0, err
		}
		found = append(found, files...)
	}
	if len(found) < 2 {
		return 0, fmt.Errorf("found only %q", found)
	}
	for i, name := range found {
		put := func(at string) error { return unix.Mkfifo(at, 0o666) }
		if i%2 == 1 {
			put = func(at string) error { return os.Symlink("/etc/passwd", at) }
		}
		if err := errors.Join(put(name+".new"), os.Rename(name+".new", name)); err != nil {
			return 0, err
		}
	}
	return done(ctx)
}
