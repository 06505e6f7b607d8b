package status

import (
	"fmt"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestTheWriterRepairsAnOverwrittenStatus(t *testing.T) {
	inBubble(t, 4, []string{"a"}, func(t *testing.T, s *server, w *Writer) {
		w.Write(s.pod("a"), speak("1"))
		wantServed(t, s, "patch a 1")
		s.overwrite("a", speak("theirs"))
		w.Write(s.pod("a"), speak("1"))
		wantServed(t, s, "patch a 1")
	})
}

// The watch lags: another program overwrites the phase, and the answer to our next patch, which
// concerns another field, shows that. No newer version will ever be delivered.
func TestTheWriterRepairsWhatAnAnswerShows(t *testing.T) {
	inBubble(t, 4, []string{"a"}, func(t *testing.T, s *server, w *Writer) {
		p := s.pod("a")
		w.Write(p, speak("1"))
		wantServed(t, s, "patch a 1")
		theirs := speak("1")
		theirs.Phase = v1.PodPending
		s.overwrite("a", theirs)

		w.Write(p, ready("1"))
		wantServed(t, s, "patch a 1, patch a 1")
		w.Write(s.pod("a"), ready("1"))
		wantServed(t, s, "")
		if now := s.pod("a").Status; now.Phase != v1.PodRunning || !isReady(now) {
			t.Errorf("the server holds %+v", now)
		}
	})
}

// A server that does not know a field leaves it out, each time.
func TestTheWriterDoesNotRepeatWhatTheServerLeavesOut(t *testing.T) {
	inBubble(t, 4, []string{"a"}, func(t *testing.T, s *server, w *Writer) {
		s.set(func() {
			s.leaveOut = func(status *v1.PodStatus) {
				status.ObservedGeneration, status.HostIP = 0, ""
				*status = without(*status)
			}
		})
		p := s.pod("a")
		app := v1.ContainerStatus{Name: "app", VolumeMounts: []v1.VolumeMountStatus{{Name: "data", MountPath: "/a"}, {Name: "data", MountPath: "/b"}}}
		for i := range 3 {
			status := ready(strconv.Itoa(i))
			status.ContainerStatuses = []v1.ContainerStatus{app}
			status.ObservedGeneration, status.HostIP = 7, "10.0.0.1"
			w.Write(p, status)
			wantServed(t, s, "patch a "+strconv.Itoa(i))
		}
	})
}

// Restored from a backup, the server has an older version of the pod than it had.
func TestTheWriterRepairsWhatABackupBrings(t *testing.T) {
	inBubble(t, 4, []string{"a"}, func(t *testing.T, s *server, w *Writer) {
		p := s.pod("a")
		w.Write(p, speak("1"))
		wantServed(t, s, "patch a 1")
		kept := s.pod("a")
		for i := range 5 {
			s.overwrite("a", speak(fmt.Sprint("theirs ", i)))
		}
		w.Write(s.pod("a"), speak("2"))
		wantServed(t, s, "patch a 2")
		w.Write(s.pod("a"), speak("2"))

		s.set(func() { s.pods["a"], s.version = kept, 2 })
		w.Write(s.pod("a"), speak("2"))
		wantServed(t, s, "patch a 2")
		if now := s.pod("a").Status.Message; now != "2" {
			t.Errorf("the server holds %q", now)
		}
		// What it says from now on is believed, and what the source had before is not news.
		w.Write(kept, speak("2"))
		wantServed(t, s, "")
		s.overwrite("a", speak("theirs"))
		w.Write(s.pod("a"), speak("2"))
		wantServed(t, s, "patch a 2")
	})
}

// The same if the source has not noticed yet, and the answer to a patch tells.
func TestTheWriterBelievesTheAnswerOfABackup(t *testing.T) {
	inBubble(t, 4, []string{"a"}, func(t *testing.T, s *server, w *Writer) {
		old := s.pod("a")
		for range 5 {
			s.overwrite("a", speak("theirs"))
		}
		p := s.pod("a")
		w.Write(p, speak("1"))
		wantServed(t, s, "patch a 1")

		s.set(func() { s.pods["a"], s.version = old, 1 })
		w.Write(p, ready("1"))
		wantServed(t, s, "patch a , patch a 1")
		if now := s.pod("a").Status; now.Phase != v1.PodRunning || !isReady(now) {
			t.Errorf("the server holds %+v", now)
		}
	})
}
