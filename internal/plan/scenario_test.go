package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth/internal/pod"
)

// A scenario file tells the story of one pod. Lines up to "----" say what happens;
// the lines after it, up to a blank one, are the plan that must follow.
//
//	pod NAME restart=POLICY containers=a,b   the pod that is wanted
//	edit CONTAINER image=X                   its spec changes
//	drop CONTAINER                           the spec loses it
//	hostnetwork                              the sandbox must change
//	now T                                    the time moves on
//	apply                                    what was planned is done, at once
//	exit CONTAINER code=N [at=T]             a running container ends
//	lose CONTAINER                           the runtime forgets its state
//	halfmade CONTAINER                       the agent died between create and start
//	unstartable CONTAINER [at=T]             the runtime could not start it: it ended and never began
//	sandbox dies                             and its containers with it
//	twin CONTAINER                           a second one runs beside it
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios found: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			w := &world{start: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
			w.now = w.start
			for i, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
				input, want, ok := strings.Cut(block, "\n----")
				if !ok {
					t.Fatalf("block %d has no ---- line:\n%s", i+1, block)
				}
				for _, line := range strings.Split(input, "\n") {
					if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
						if err := w.do(strings.Fields(line)); err != nil {
							t.Fatalf("block %d: %q: %v", i+1, line, err)
						}
					}
				}
				w.plan = Next(w.want, w.have, DefaultBackoff, w.now)
				if got := w.describe(); got != strings.TrimSpace(want) {
					t.Fatalf("block %d, after\n%s\n\ngot:\n%s\n\nwant:\n%s", i+1, input, got, strings.TrimSpace(want))
				}
			}
		})
	}
}

type world struct {
	start, now time.Time
	want       *v1.Pod
	have       pod.Observed
	plan       Plan
	ids        int
}

func (w *world) do(f []string) error {
	opt := map[string]string{}
	var args []string
	for _, word := range f[1:] {
		if k, v, ok := strings.Cut(word, "="); ok {
			opt[k] = v
		} else {
			args = append(args, word)
		}
	}
	if at, ok := opt["at"]; ok {
		if err := w.moveTo(at); err != nil {
			return err
		}
	}
	switch f[0] {
	case "pod":
		w.want = &v1.Pod{}
		w.want.Name, w.want.Namespace, w.want.UID = args[0], "default", "uid"
		w.want.Spec.RestartPolicy = v1.RestartPolicy(opt["restart"])
		for _, name := range strings.Split(opt["containers"], ",") {
			w.want.Spec.Containers = append(w.want.Spec.Containers, v1.Container{Name: name, Image: "one"})
		}
	case "edit":
		for i := range w.want.Spec.Containers {
			if c := &w.want.Spec.Containers[i]; c.Name == args[0] {
				c.Image = opt["image"]
			}
		}
	case "drop":
		w.want.Spec.Containers = slices.DeleteFunc(w.want.Spec.Containers, func(c v1.Container) bool { return c.Name == args[0] })
	case "hostnetwork":
		w.want.Spec.HostNetwork = true
	case "now":
		return w.moveTo(args[0])
	case "apply":
		w.apply()
	case "exit":
		code, err := strconv.ParseInt(opt["code"], 10, 32)
		if err != nil {
			return err
		}
		w.end(w.have.Container(args[0]), int32(code))
	case "lose":
		w.have.Container(args[0]).State = pod.ContainerUnknown
	case "halfmade":
		c := w.have.Container(args[0])
		c.State, c.StartedAt = pod.ContainerCreated, time.Time{}
	case "unstartable":
		c := w.have.Container(args[0])
		w.end(c, 128)
		c.StartedAt = time.Time{}
	case "sandbox":
		w.stopSandbox(w.have.Sandboxes[0].ID)
	case "twin":
		twin := *w.have.Container(args[0])
		twin.ID += "-twin"
		w.have.Containers = append([]pod.Container{twin}, w.have.Containers...)
	default:
		return fmt.Errorf("unknown word %q", f[0])
	}
	return nil
}

func (w *world) moveTo(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil {
		return err
	}
	w.now = w.start.Add(d)
	return nil
}

// apply does what was planned, as a runtime without faults would.
func (w *world) apply() {
	for _, a := range w.plan.Actions {
		switch a := a.(type) {
		case StopSandbox:
			w.stopSandbox(a.ID)
		case StopContainer:
			for i := range w.have.Containers {
				if w.have.Containers[i].ID == a.ID {
					w.end(&w.have.Containers[i], 137)
				}
			}
		case DropContainer:
			w.remove(a.ID)
		case CreateSandbox:
			s := pod.Sandbox{ID: fmt.Sprintf("s%d", a.Attempt), Attempt: a.Attempt, State: pod.SandboxReady, Hash: a.Hash}
			w.have.Sandboxes = append([]pod.Sandbox{s}, w.have.Sandboxes...)
		case StartContainer:
			w.ids++
			c := pod.Container{
				ID: fmt.Sprintf("%s%d", a.Name, w.ids), Name: a.Name, SandboxID: w.have.Sandboxes[0].ID, State: pod.ContainerRunning,
				Hash: a.Hash, RestartCount: a.RestartCount, Backoff: a.Backoff, StartedAt: w.now,
			}
			w.have.Containers = append([]pod.Container{c}, w.have.Containers...)
		case RemoveContainer:
			w.remove(a.ID)
		case RemoveSandbox:
			w.have.Sandboxes = slices.DeleteFunc(w.have.Sandboxes, func(s pod.Sandbox) bool { return s.ID == a.ID })
		}
	}
}

func (w *world) remove(id string) {
	w.have.Containers = slices.DeleteFunc(w.have.Containers, func(c pod.Container) bool { return c.ID == id })
}

func (w *world) end(c *pod.Container, code int32) {
	c.State, c.ExitCode, c.FinishedAt = pod.ContainerExited, code, w.now
}

func (w *world) stopSandbox(id string) {
	for i := range w.have.Sandboxes {
		if w.have.Sandboxes[i].ID == id {
			w.have.Sandboxes[i].State = pod.SandboxNotReady
		}
	}
	for i := range w.have.Containers {
		if c := &w.have.Containers[i]; c.SandboxID == id && c.State != pod.ContainerExited {
			w.end(c, 137)
		}
	}
}

func (w *world) describe() string {
	var out []string
	for _, a := range w.plan.Actions {
		switch a := a.(type) {
		case StopSandbox:
			out = append(out, fmt.Sprintf("stop sandbox %s: %s", a.ID, a.Why))
		case StopContainer:
			out = append(out, fmt.Sprintf("stop %s: %s", a.ID, a.Why))
		case DropContainer:
			out = append(out, "drop "+a.ID)
		case CreateSandbox:
			out = append(out, fmt.Sprintf("create sandbox attempt=%d", a.Attempt))
		case StartContainer:
			out = append(out, fmt.Sprintf("start %s restarts=%d backoff=%s", a.Name, a.RestartCount, a.Backoff))
		case RemoveContainer:
			out = append(out, "remove "+a.ID)
		case RemoveSandbox:
			out = append(out, "remove sandbox "+a.ID)
		}
	}
	for _, wait := range w.plan.Waits {
		out = append(out, fmt.Sprintf("wait %s until=%s reason=%s", wait.Container, wait.Until.Sub(w.start), wait.Reason))
	}
	if w.plan.Finished {
		out = append(out, "finished")
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, "\n")
}
