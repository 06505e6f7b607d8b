package rootlock

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOnlyTheHolderOfTheLockIsAskedToEnd(t *testing.T) {
	// given a locked root whose file names a process that does not hold the lock
	root := t.TempDir()
	lock, err := Acquire(root)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- other.Wait() }()
	t.Cleanup(func() {
		_ = other.Process.Kill()
		<-ended
	})
	if err := os.WriteFile(filepath.Join(root, lockFile), []byte(strconv.Itoa(other.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}

	// when another process wants to take over, then it gets an error, and the holder goes on
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := TakeOver(ctx, root); err == nil || !strings.Contains(err.Error(), "can't be asked to end") {
		t.Errorf("got %v", err)
	}
	select {
	case err := <-ended:
		t.Errorf("the process was ended: %v", err)
		ended <- nil
	default:
	}
}

func TestTheHolderOfTheLockIsAskedToEnd(t *testing.T) {
	// given a process that holds the lock of a root, and is named in it
	root := t.TempDir()
	path := filepath.Join(root, lockFile)
	holder := exec.Command("flock", "--no-fork", path, "sh", "-c", "echo $$ >"+path+"; echo locked; exec sleep 60")
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	go func() { _ = holder.Wait() }()

	// when another process takes over, then the holder ends, and the other has the lock
	lock, err := TakeOver(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	lock.Release()
}

func TestOnlyRootCanHoldTheLock(t *testing.T) {
	// given a lock file of an older version, which all may open
	root := t.TempDir()
	path := filepath.Join(root, lockFile)
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	lock, err := Acquire(root)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
}

func TestARootHasOneHolder(t *testing.T) {
	for name, damage := range map[string]func(root string){
		"as ever": func(string) {},
		// No file can be made on a read-only disk: what is locked is the directory.
		"without a file": func(root string) { mustDo(t, os.Remove(filepath.Join(root, lockFile))) },
		// The process in the file may have ended long ago, and its pid may have been reused.
		"with a wrong pid":  func(root string) { mustDo(t, os.WriteFile(filepath.Join(root, lockFile), []byte("1\n"), 0o644)) },
		"with an empty one": func(root string) { mustDo(t, os.WriteFile(filepath.Join(root, lockFile), nil, 0o644)) },
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "root")
			lock, err := Acquire(root)
			mustDo(t, err)
			damage(root)

			// then no other process gets the lock, and the error names its holder
			_, err = Acquire(root)
			if locked := (*HeldError)(nil); !errors.As(err, &locked) || locked.pid != os.Getpid() {
				t.Errorf("got %v, want that %d has it", err, os.Getpid())
			}

			// and it is there for others once it is given back
			lock.Release()
			again, err := Acquire(root)
			mustDo(t, err)
			again.Release()
		})
	}
}

// An agent of before has locked the file alone.
func TestARootWhoseFileIsLockedIsTaken(t *testing.T) {
	root := t.TempDir()
	file, err := os.Create(filepath.Join(root, lockFile))
	mustDo(t, err)
	defer file.Close()
	mustDo(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))

	_, err = Acquire(root)

	if locked := (*HeldError)(nil); !errors.As(err, &locked) || locked.pid != os.Getpid() {
		t.Errorf("got %v, want that %d has it", err, os.Getpid())
	}
}

func TestTheHolderIsFoundAmongLocks(t *testing.T) {
	const locks = `1: POSIX  ADVISORY  WRITE 100 fd:01:77 0 EOF
2: FLOCK  ADVISORY  WRITE 200 fd:01:77 0 EOF
2: -> FLOCK  ADVISORY  WRITE 300 fd:01:77 0 EOF
3: FLOCK  ADVISORY  WRITE 400 fd:02:77 0 EOF
`
	for device, want := range map[uint64]int{unix.Mkdev(0xfd, 1): 200, unix.Mkdev(0xfd, 2): 400, unix.Mkdev(0xfd, 3): 0} {
		if got := flockHolder(locks, device, 77); got != want {
			t.Errorf("on device %x it is %d, want %d", device, got, want)
		}
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheHolderOfALockIsKnownWithoutTryingIt(t *testing.T) {
	root := t.TempDir()
	if pid := Holder(root); pid != 0 {
		t.Errorf("nothing is locked, and process %d is said to hold it", pid)
	}
	lock, err := Acquire(root)
	mustDo(t, err)
	mustDo(t, os.WriteFile(filepath.Join(root, lockFile), []byte("1\n"), 0o600))
	if pid := Holder(root); pid != os.Getpid() {
		t.Errorf("process %d is said to hold the lock, and it is %d", pid, os.Getpid())
	}
	// and once it is given back, the process that is written there is not taken for the holder
	lock.Release()
	mustDo(t, os.WriteFile(filepath.Join(root, lockFile), []byte(strconv.Itoa(os.Getpid())), 0o600))
	if pid := Holder(root); pid != 0 {
		t.Errorf("nothing is locked any more, and process %d is said to hold it", pid)
	}
}
