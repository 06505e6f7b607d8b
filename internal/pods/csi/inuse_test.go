package csi

import (
	"errors"
	"fmt"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
)

// attachable makes the volumes of the world ones that a cluster attaches.
func (w *world) attachable(handles ...string) {
	w.described().AttachRequired = new(true)
	for _, h := range handles {
		w.objects.attachments[attachmentName(volumeID{disks, h}, "box")] = &storagev1.VolumeAttachment{Status: storagev1.VolumeAttachmentStatus{Attached: true}}
	}
}

func TestAVolumeIsInUseUntilItIsUnstaged(t *testing.T) {
	// given a volume that is not attached yet
	w := newWorld(t)
	w.attachable("h", "other")
	w.cluster.detached = true
	a, b := w.request("a", "h"), w.request("b", "h")
	var waiting *Waiting
	if err := w.failure(a, "waiting for the volume to be attached to this node"); !errors.As(err, &waiting) {
		t.Error(err)
	}
	// and who waits for that is woken when the cluster says something about it
	w.m.Attached(t.Context())
	if uid := <-w.woken; uid != "a" {
		t.Errorf("%s was woken", uid)
	}
	// then it is in use, since a pod wants it, and for as long as it does
	w.inUse(true, "h")
	w.m.Forget("a")
	w.inUse(true)
	w.cluster.away = errors.New("no answer")
	w.mountFails(a, "no answer")
	w.cluster.detached, w.cluster.away = false, nil
	w.expect()

	// when it is mounted, then the cluster knew before
	w.driver.before = func(call string) error {
		w.cluster.mu.Lock()
		defer w.cluster.mu.Unlock()
		if len(w.cluster.inUse) != 1 {
			return fmt.Errorf("at %s these are in use: %q", call, w.cluster.inUse)
		}
		return nil
	}
	w.mount(a)
	w.mount(b)
	w.m.Forget("a")
	w.m.Forget("b")
	w.inUse(true, "h")

	// and the next agent knows it from the first moment on
	w.cluster.inUse = nil
	w.restart()
	w.inUse(true, "h")
	w.register()
	w.unmount(a)
	w.inUse(true, "h")
	w.driver.before = func(call string) error {
		if call == "unstage h" {
			return errors.New("busy")
		}
		return nil
	}
	if err := w.m.Unmount(t.Context(), "b", b.Dir, b.OnStep); err == nil {
		t.Error("a volume that can't be unstaged is gone")
	}
	w.inUse(true, "h")
	w.driver.before = nil
	w.unmount(b)
	w.inUse(true)
	w.nothingLeft()
}

func TestAVolumeWithoutAttachmentIsNotInUse(t *testing.T) {
	w := newWorld(t)
	w.mount(w.request("a", "h"))
	w.inUse(true)
	w.restart()
	w.inUse(true)
}
