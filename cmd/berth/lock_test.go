package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestOnlyTheHolderOfTheLockIsAskedToEnd(t *testing.T) {
	// given a locked root whose file names a process that does not hold the lock
	root := t.TempDir()
	lock, err := lockRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.release()
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

	// when somebody wants to take over, then they are told, and the process goes on
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := takeOver(ctx, root); err == nil || !strings.Contains(err.Error(), "not by process "+strconv.Itoa(other.Process.Pid)) {
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

	// when somebody takes over, then it ends, and they have the lock
	lock, err := takeOver(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	lock.release()
}

func TestNobodyButRootCanHoldTheLock(t *testing.T) {
	// given a lock file of an older version, which all may open
	root := t.TempDir()
	path := filepath.Join(root, lockFile)
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	lock, err := lockRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.release()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
}
