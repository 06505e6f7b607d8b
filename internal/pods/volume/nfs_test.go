package volume

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

func nfsVolume(path string) v1.VolumeSource {
	return v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "files", Path: path}}
}

func TestAServerMayTakeLongerThanAnybodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.mounter.remote = w.cfg.Timeout + 30*time.Second
		p := podWith(nfsVolume("/x"))

		var hung *HungError
		if err := w.failure(p, "mount files:/x: not done since "+timestamp(time.Now())); !errors.As(err, &hung) {
			t.Error(err)
		}

		w.setup(p)
		if want := []string{"nfs files:/x "}; !slices.Equal(w.mounter.done, want) {
			t.Errorf("%q; want it once", w.mounter.done)
		}
	})
}

func TestTeardownDoesNotWaitForAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.mounter.remote = time.Hour
		p := podWith(nfsVolume("/x"))
		w.setupFails(p, "not done since")

		began := time.Now()
		if err := w.m.Teardown(t.Context(), p.UID); err != nil || time.Since(began) > 0 {
			t.Errorf("after %s: %v", time.Since(began), err)
		}

		// one that never answers is given up in the end, and said to have been
		w.setupFails(p, "not done since")
		w.setupFails(p, "not done since")
		time.Sleep(remoteMountTimeout)
		if synctest.Wait(); len(w.m.guard.busy) > 0 {
			t.Error("it is waited for without end")
		}
	})
}
