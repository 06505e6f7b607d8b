package merge

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// A scenario is a text file of blocks. Each block is one snapshot, a line of
// dashes, and what the Merger has to say to it:
//
//	set file
//	pod web uid=w1 image=a
//	refused other.yaml line=3 not a pod
//	----
//	ADD file default/web@w1
//	refused file other.yaml:3 not a pod
//
// Lines that begin with # say why. A first line "mode snapshot" or "mode
// snapshot+updates" chooses another mode than incremental.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			play(t, string(text))
		})
	}
}

func play(t *testing.T, text string) {
	mode := Incremental
	if rest, ok := strings.CutPrefix(text, "mode "); ok {
		var name string
		name, text, _ = strings.Cut(rest, "\n")
		switch name {
		case "snapshot":
			mode = Snapshot
		case "snapshot+updates":
			mode = SnapshotAndUpdates
		default:
			t.Fatalf("unknown mode %q", name)
		}
	}
	m := newMerger(t, mode)
	for i, block := range strings.Split(text, "\n\n") {
		given, want, ok := strings.Cut(withoutComments(block), "----\n")
		if !ok {
			t.Fatalf("block %d has no line of dashes:\n%s", i+1, block)
		}
		s := parseSnapshot(t, given)
		got := formatUpdates(t, m.Merge(s, epoch.Add(time.Duration(i)*time.Minute)))
		if got != want {
			t.Fatalf("block %d:\n%s\nsaid:\n%s\nwanted:\n%s", i+1, given, got, want)
		}
	}
}

func withoutComments(block string) string {
	var kept strings.Builder
	for line := range strings.Lines(block) {
		if line != "\n" && !strings.HasPrefix(line, "#") {
			kept.WriteString(strings.TrimRight(line, "\n") + "\n")
		}
	}
	return kept.String()
}

func parseSnapshot(t *testing.T, text string) pod.Snapshot {
	var s pod.Snapshot
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch words[0] {
		case "set", "restore":
			s.Source = words[1]
			if words[0] == "restore" {
				s.Op = pod.Restore
			}
			s.Unreadable = len(words) > 2 && words[2] == "unreadable"
		case "pod":
			s.Pods = append(s.Pods, parsePod(t, words[1:]))
		case "refused":
			line, err := strconv.Atoi(strings.TrimPrefix(words[2], "line="))
			if err != nil {
				t.Fatalf("%q: %v", words, err)
			}
			s.Refused = append(s.Refused, pod.Refusal{
				Source: s.Source, Origin: words[1], Line: line, Message: strings.Join(words[3:], " "),
			})
		default:
			t.Fatalf("unknown word %q", words[0])
		}
	}
	return s
}

func parsePod(t *testing.T, words []string) *v1.Pod {
	p := &v1.Pod{}
	p.Name = words[0]
	p.Namespace = "default"
	p.Spec.Containers = []v1.Container{{Name: "app"}}
	annotate := func(key, value string) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[key] = value
	}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "uid":
			p.UID = pod.UID(value)
		case "image":
			p.Spec.Containers[0].Image = "localhost/" + value
		case "label":
			p.Labels = map[string]string{"label": value}
		case "note":
			annotate("note", value)
		case "status":
			p.Status.Phase = v1.PodPhase(value)
		case "rv":
			p.ResourceVersion = value
		case "grace":
			seconds, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				t.Fatalf("%q: %v", word, err)
			}
			p.DeletionGracePeriodSeconds = &seconds
		case "deleted":
			p.DeletionTimestamp = &metav1.Time{Time: epoch}
		case "mirror":
			annotate(pod.AnnotationMirror, "hash")
		case "empty":
			p.Spec.Containers = nil
		default:
			t.Fatalf("unknown attribute %q", word)
		}
	}
	return p
}

// formatUpdates formats updates as the scenarios do. The refusals, which every update
// carries, are written once for each source.
func formatUpdates(t *testing.T, updates []pod.Update) string {
	if len(updates) == 0 {
		return "nothing\n"
	}
	var out strings.Builder
	for i, u := range updates {
		fmt.Fprintf(&out, "%s %s", u.Op, u.Source)
		for _, p := range u.Pods {
			fmt.Fprintf(&out, " %s@%s", pod.Ref(p), p.UID)
		}
		if u.Unreadable {
			out.WriteString(" unreadable")
		}
		out.WriteString("\n")
		if i+1 < len(updates) && updates[i+1].Source == u.Source {
			if len(u.Refused) != len(updates[i+1].Refused) {
				t.Errorf("two updates of one delivery carry other refusals: %v and %v", u.Refused, updates[i+1].Refused)
			}
			continue
		}
		for _, r := range u.Refused {
			fmt.Fprintf(&out, "refused %s", r.Source)
			if r.Origin != "" {
				fmt.Fprintf(&out, " %s:%d", r.Origin, r.Line)
			}
			if r.Pod != "" {
				fmt.Fprintf(&out, " %s", r.Pod)
			}
			if r.Kept {
				out.WriteString(" kept")
			}
			fmt.Fprintf(&out, " %s\n", r.Message)
		}
	}
	return out.String()
}
