package agent

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"berth/internal/lib/logging"
)

// deadPipeHelper in the environment makes TestADeadPipeEndsNothing the process under test.
const deadPipeHelper = "BERTH_TEST_DEAD_PIPE"

func TestADeadPipeEndsNothing(t *testing.T) {
	if os.Getenv(deadPipeHelper) != "" {
		surviveDeadPipe()
		_, _ = io.Copy(io.Discard, os.Stdin) // until the reader is gone
		log := logging.To(os.Stderr)
		log.Info("berth ends; its pods go on")
		fmt.Println("nobody reads this")
		os.Exit(7)
	}

	// given a process whose output goes into a pipe
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), deadPipeHelper+"=1")
	cmd.Stdout, cmd.Stderr = write, write
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()

	// when the reader goes, and the process writes
	_ = read.Close()
	_ = in.Close()

	// then it goes on to its own end
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("it ended with %s", cmd.ProcessState)
	}
}
