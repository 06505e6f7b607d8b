//go:build real

package api

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"berth/internal/runtime/ociarchive"
	"berth/test/fixture"
	"berth/test/real/kit"
)

// toolsImage is the workload with a tar.
const toolsImage = "localhost/tools:1"

func toolsArchive(t *testing.T) []byte {
	t.Helper()
	program, err := fixture.Build("workload")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = ociarchive.Write(&out, ociarchive.Image{
		Tag:        toolsImage,
		Files:      []ociarchive.File{{Path: "/workload", Mode: 0o755, Data: program}, {Path: "/bin/tar", Mode: 0o755, Data: program}},
		Entrypoint: []string{"/workload"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestExec(t *testing.T) {
	t.Parallel()
	// given a pod that runs, and one that does not
	n := kit.NewNode(t)
	n.Apply("pods.yaml", kit.NewPod("web", "sleep"), kit.NewPod("ends", "exit", "3"))
	n.Start()
	n.WaitRunning("web")
	// then commands run in it, with their input, output and exit code
	n.ExpectBerth("", []string{"exec", "web", "--", "/workload", "complain", "oh no", "0"}, 0, "", "oh no")
	n.ExpectBerth("", []string{"exec", "web", "--", "/workload", "exit", "42"}, 42, "", "")
	n.ExpectBerth("typed", []string{"exec", "-i", "web", "--", "/workload", "cat"}, 0, "typed", "")
	large := strings.Repeat("0123456789abcdef", 1<<16)
	n.ExpectBerth(large, []string{"exec", "-i", "web", "--", "/workload", "cat"}, 0, large, "")
	n.ExpectBerth("", []string{"exec", "web", "--", "/nope"}, 1, "", "/nope")
	n.WaitPod("ends", "waits", kit.StartTimeout, func(p v1.Pod) string { return kit.MissingUnless(kit.AppStatus(p).State.Waiting != nil) })
	n.ExpectBerth("", []string{"exec", "ends", "--", "/workload", "cat"}, 1, "", "container app of pod ends is waiting: CrashLoopBackOff; see 'berth logs ends -c app -p'")

	// and one in a container that is killed ends with it
	cmd := exec.Command(n.Program, "--root-dir", n.Root, "exec", "-i", "web", "--", "/workload", "cat")
	typist, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	screen, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Inside(cmd.Start); err != nil {
		t.Fatal(err)
	}
	if _, err := typist.Write([]byte("it runs")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(screen, make([]byte, len("it runs"))); err != nil {
		t.Fatal(err)
	}
	n.RemoveManifest("pods.yaml")
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
		if code := cmd.ProcessState.ExitCode(); code != 137 {
			t.Errorf("got exit code %d", code)
		}
	case <-time.After(kit.StartTimeout):
		_ = cmd.Process.Kill()
		t.Error("it goes on without its container")
	}
	// and none of that was logged as an error
	if log, err := os.ReadFile(n.LogFile()); err != nil || strings.Contains(string(log), "level=ERROR") {
		t.Errorf("the log tells of errors, %v:\n%s", err, log)
	}
}

// openTerminal returns the two ends of a terminal of 100 x 30.
func openTerminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	resize(t, user, 100, 30)
	return user, program
}

func resize(t *testing.T, user *os.File, columns, rows uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		t.Fatal(err)
	}
}

func TestExecOnATerminal(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	n.Apply("pods.yaml", kit.NewPod("web", "sleep"))
	n.Start()
	n.WaitRunning("web")
	// given a program in a container, and a terminal that is its user's own
	user, program := openTerminal(t)
	cmd := exec.Command(n.Program, "--root-dir", n.Root, "exec", "-it", "web", "--", "/workload", "terminal")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // so that it gets SIGWINCH
	if err := n.Inside(cmd.Start); err != nil {
		t.Fatal(err)
	}
	screen := &kit.Buffer{}
	go func() { _, _ = io.Copy(screen, user) }() // until the terminal is closed
	shows := func(text string) {
		t.Helper()
		n.Wait("the screen to show "+text, kit.StartTimeout, func() string {
			if !strings.Contains(screen.String(), text) {
				return screen.String()
			}
			return ""
		})
	}
	// then the program's terminal is as large, also when that changes
	shows("terminal of 100 x 30\r\n")
	resize(t, user, 120, 40)
	shows("terminal of 120 x 40\r\n")
	// and it reads what is typed
	if _, err := user.Write([]byte("hello\r")); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	shows("read hello")
	state, err := unix.IoctlGetTermios(int(user.Fd()), unix.TCGETS)
	if err != nil || state.Lflag&unix.ICANON == 0 {
		t.Errorf("the terminal is left as programs use it: %+v, %v", state, err)
	}
}

func TestCopy(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	n.AddImage("tools.tar", toolsArchive(t))
	tools := kit.NewPod("tools", "sleep")
	tools.Spec.Containers[0].Image = toolsImage
	n.Apply("pods.yaml", tools, kit.NewPod("bare", "sleep"))
	n.Start()
	n.WaitRunning("tools", "bare")
	// given a folder with a file, a program and a link
	site := filepath.Join(n.Dir, "site")
	for path, mode := range map[string]os.FileMode{"a": 0o600, "sub/b": 0o751} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(site, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(site, path), []byte("content of "+path), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("sub/b", filepath.Join(site, "l")); err != nil {
		t.Fatal(err)
	}
	// when it is copied into a container, and out again
	n.ExpectBerth("", []string{"cp", site, "tools:/www"}, 0, "", "")
	back := filepath.Join(n.Dir, "back")
	n.ExpectBerth("", []string{"cp", "tools:/www", back}, 0, "", "")
	// then it is the same
	if out, err := exec.Command("diff", "-r", site, back).CombinedOutput(); err != nil {
		t.Errorf("%s: %v", out, err)
	}
	if info, err := os.Stat(filepath.Join(back, "sub/b")); err != nil || info.Mode() != 0o751 {
		t.Errorf("got %v, %v", info, err)
	}
	if target, err := os.Readlink(filepath.Join(back, "l")); err != nil || target != "sub/b" {
		t.Errorf("got %s, %v", target, err)
	}
	n.ExpectBerth("", []string{"cp", "tools:/nope", back}, 1, "", "tar in container app failed")
	n.ExpectBerth("", []string{"cp", site, "bare:/www"}, 1, "", "container app of pod bare has no 'tar'")
}

func TestPortForward(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	n.Apply("pods.yaml", kit.NewPod("web", "serve", ":8080"))
	n.Start()
	n.WaitRunning("web")
	cmd := exec.Command(n.Program, "--root-dir", n.Root, "port-forward", "web", "18080:8080", "--address", "127.0.0.1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := n.Inside(cmd.Start); err != nil {
		t.Fatal(err)
	}
	n.Wait("an answer", kit.StartTimeout, func() string {
		answer, err := n.Get("127.0.0.1:18080", "/hostname")
		if err != nil {
			return err.Error()
		}
		if answer = strings.TrimSpace(answer); answer != "web-"+kit.NodeName {
			t.Errorf("got %q", answer)
		}
		return ""
	})
	// when the pod is replaced, it says so
	n.Apply("pods.yaml", kit.NewPod("web", "serve", ":8081"))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(stderr.String(), "lost connection to pod; the pod web ") {
			t.Errorf("got %v, %s", err, &stderr)
		}
	case <-time.After(kit.StartTimeout):
		_ = cmd.Process.Kill()
		t.Errorf("it goes on: %s", &stderr)
	}
}

func TestDebug(t *testing.T) {
	t.Parallel()
	n := kit.NewNode(t)
	n.AddImage("tools.tar", toolsArchive(t))
	n.Apply("pods.yaml", kit.NewPod("web", "sleep"))
	n.Start()
	before := n.WaitRunning("web")["web"]
	// when a user debugs the pod, with input
	n.ExpectBerth("typed", []string{"debug", "web", "--image", toolsImage, "--target", "app", "-i", "-c", "one", "--", "/workload", "cat"}, 0, "typed", "container one starts in pod web")
	n.ExpectBerth("", []string{"debug", "web", "--image", toolsImage, "-c", "two"}, 0, "container two starts in pod web; see 'berth logs web -c two'\n", "")
	n.ExpectBerth("", []string{"debug", "web", "--image", toolsImage, "-i", "-c", "three", "--", "/workload", "exit", "7"}, 7, "", "")
	// then the pod goes on, and the container stays when the agent is restarted
	n.ExpectBerth("", []string{"debug", "web", "--image", toolsImage, "-c", "stays", "--", "/workload", "sleep"}, 0, "container stays starts in pod web; see 'berth logs web -c stays'\n", "")
	runs := func(p v1.Pod) string {
		for _, s := range p.Status.EphemeralContainerStatuses {
			if s.Name == "stays" && s.State.Running != nil {
				return ""
			}
		}
		return "container stays"
	}
	n.WaitPod("web", "has the container", kit.StartTimeout, runs)
	if got := n.Berth("diff", "-f", n.Manifests); got.Code != 0 || got.Out != "" {
		t.Errorf("the manifests are as they were, and berth diff says %s", got)
	}
	n.KillAgent()
	n.Start()
	after := n.WaitPod("web", "has the container still", kit.StartTimeout, runs)
	if kit.AppStatus(after).ContainerID != kit.AppStatus(before).ContainerID {
		t.Error("the container of the pod was restarted")
	}
	n.ExpectBerth("", []string{"exec", "web", "-c", "stays", "--", "/workload", "exit", "5"}, 5, "", "")
}
