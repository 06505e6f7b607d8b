package volume

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

const inUse = "volume uses the ReadWriteOncePod access mode and is already in use by another pod"

// forOne is a world with a claim that is for one pod at a time, and two pods that name it.
func forOne(t *testing.T, source v1.PersistentVolumeSource) (w *world, first, second *v1.Pod) {
	t.Helper()
	w = newWorld(t)
	claim, pv := w.bind(source)
	claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	pv.Spec.AccessModes = claim.Spec.AccessModes
	first, second = podWith(claimVolume("data")), podWith(claimVolume("data"))
	second.UID, second.Name = "u-2", "late"
	return w, first, second
}

func TestAVolumeForOnePodIsHadByOnePod(t *testing.T) {
	device := filepath.Join(t.TempDir(), "dev", "disk")
	for kind, source := range map[string]v1.PersistentVolumeSource{
		"hostPath": onHost(t.TempDir()),
		"local":    {Local: &v1.LocalVolumeSource{Path: t.TempDir()}},
		"nfs":      {NFS: &v1.NFSVolumeSource{Server: "files", Path: "/x"}},
		"csi":      {CSI: &v1.CSIPersistentVolumeSource{Driver: "disks", VolumeHandle: "h"}},
		"device":   {Local: &v1.LocalVolumeSource{Path: device}},
	} {
		t.Run(kind, func(t *testing.T) {
			// given a pod that has it
			w, first, second := forOne(t, source)
			if kind == "device" {
				w.objects.volumes["disk"].Spec.VolumeMode = new(v1.PersistentVolumeBlock)
			}
			w.setup(first)

			// then another one waits, also if it asks first after a restart of the agent
			w.setupFails(second, `persistent volume "disk": `+inUse+": shop/web")
			w.restart()
			w.setupFails(second, inUse)
			w.setup(first)
			w.setupFails(second, inUse)

			// when the first is gone, then the other is enqueued, and gets the volume
			if err := w.m.Teardown(t.Context(), first.UID); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(w.woken, []pod.UID{"u-2"}) {
				t.Error("woken:", w.woken)
			}
			w.setup(second)
			w.setupFails(first, inUse+": shop/late")
		})
	}
}

func TestAPodThatDoesNotLetGoKeepsAVolumeForOnePod(t *testing.T) {
	w, first, second := forOne(t, v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: t.TempDir()}})
	w.setup(first)
	w.setupFails(second, inUse)
	w.mounter.busy = w.dir(first)

	if err := w.m.Teardown(t.Context(), first.UID); err == nil {
		t.Fatal("a mount that is in use is gone")
	}

	w.setupFails(second, inUse)
	if len(w.woken) > 0 {
		t.Error("woken:", w.woken)
	}
}

func TestOfManyThatWantAVolumeForOnePodOneGetsIt(t *testing.T) {
	w, _, _ := forOne(t, onHost(t.TempDir()))
	var got atomic.Int32
	var all sync.WaitGroup
	for _, uid := range []pod.UID{"a", "b", "c", "d", "e", "f"} {
		p := podWith(claimVolume("data"))
		p.UID = uid
		all.Go(func() {
			if _, err := w.m.Setup(context.Background(), p, nil); err == nil {
				got.Add(1)
			}
		})
	}
	all.Wait()
	if got.Load() != 1 {
		t.Error(got.Load(), "pods have it")
	}
}

func TestAVolumeForOneNodeIsHadByManyPods(t *testing.T) {
	w, first, second := forOne(t, onHost(t.TempDir()))
	w.objects.claims["data"].Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	w.objects.volumes["disk"].Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	w.setup(first)
	w.setup(second)

	// when it becomes one for one pod, then those that have it keep it
	w.objects.volumes["disk"].Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	third := podWith(claimVolume("data"))
	third.UID = "u-3"
	w.setupFails(third, inUse)
	w.restart()
	w.setupFails(third, inUse)
	w.setup(first)
	w.setup(second)
}

func TestAPodThatIsGoneWaitsForNoVolume(t *testing.T) {
	w, first, second := forOne(t, onHost(t.TempDir()))
	w.setup(first)
	w.setupFails(second, inUse)
	for _, p := range []*v1.Pod{second, first} {
		if err := w.m.Teardown(t.Context(), p.UID); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.woken) > 0 || len(w.m.waiting) > 0 {
		t.Error("woken:", w.woken, "waiting:", w.m.waiting)
	}
}

func TestAnEditLetsGoOfAVolumeForOnePod(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		w, first, second := forOne(t, onHost(t.TempDir()))
		w.setup(first)
		w.setupFails(second, inUse)

		// when the first is edited, and does not want it any more
		first.Spec.Volumes[0].VolumeSource = emptyDir("", "")
		if restarts {
			w.restart()
			w.setupFails(second, inUse)
		}
		w.setup(first)

		if !slices.Equal(w.woken, []pod.UID{"u-2"}) {
			t.Error("woken:", w.woken)
		}
		w.setup(second)
	}
}

func TestAVolumeForOnePodIsNotGivenAwayBlindly(t *testing.T) {
	w, first, second := forOne(t, onHost(t.TempDir()))
	w.setup(first)
	record := w.m.recordPath(first.UID, "vol")
	if err := errors.Join(os.Remove(record), os.Mkdir(record, 0o700)); err != nil {
		t.Fatal(err)
	}
	w.setupFails(second, inUse) // the agent knows who has it
	w.restart()
	w.setupFails(second, "find out whether another pod has it: open "+record)
}

func TestHoldersAreKnownAsSoonAsTheyAreRecorded(t *testing.T) {
	w := newWorld(t)
	names := []string{"one", "two", "three"}
	for _, name := range names {
		w.bind(onHost(t.TempDir()))
		claim, pv := w.objects.claims["data"], w.objects.volumes["disk"]
		claim.Name, claim.Spec.VolumeName, pv.Name, pv.Spec.ClaimRef.Name = name, name, name, name
		w.objects.claims[name], w.objects.volumes[name] = claim, pv
	}
	chance := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		// when a pod gets volumes, or others than before, or goes
		p := podWith(claimVolume(names[chance.IntN(3)]))
		p.UID = pod.UID(fmt.Sprint("u-", chance.IntN(4)))
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "more", VolumeSource: claimVolume(names[chance.IntN(3)])})
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "more", MountPath: "/more"})
		if chance.IntN(3) == 0 {
			if err := w.m.Teardown(t.Context(), p.UID); err != nil {
				t.Fatal(err)
			}
		} else {
			w.setup(p)
		}
		// then the agent knows what another one would read
		known := w.m
		w.restart()
		for _, m := range []*Manager{known, w.m} {
			if err := m.loadHolders(); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(known.holders.pods, w.m.holders.pods) || !reflect.DeepEqual(known.holders.users, w.m.holders.users) {
			t.Fatalf("known: %v, %v; on disk: %v, %v", known.holders.pods, known.holders.users, w.m.holders.pods, w.m.holders.users)
		}
		w.m = known
	}
}

func TestARecordThatWasBegunHoldsNothing(t *testing.T) {
	w, first, second := forOne(t, onHost(t.TempDir()))
	for _, text := range []string{"", `{"source":"x","persistentVolume":"disk","pod":"shop/web"}`} {
		begun := w.m.recordPath(first.UID, "vol.new")
		if err := errors.Join(os.MkdirAll(filepath.Dir(begun), 0o750), os.WriteFile(begun, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		w.restart()
		w.setup(second)
		if !w.m.holders.filled {
			t.Error("the records of all pods will be read again")
		}
		if err := w.m.Teardown(t.Context(), second.UID); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAGroupIsNotGivenBlindly(t *testing.T) {
	// given a pod that has a volume, and a record of it that can't be understood
	w := newWorld(t)
	w.bind(localDisk(t.TempDir()))
	first, second := withGroup(podWith(claimVolume("data")), someGroup()), withGroup(podWith(claimVolume("data")), someGroup()+1)
	second.UID = "u-2"
	w.setup(first)
	if err := os.WriteFile(w.m.recordPath(first.UID, "vol"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.restart()
	// then its group stays nevertheless
	w.setup(second)
	if len(w.warned) != 1 || w.mounter.tables != 1 {
		t.Error(w.warned, w.mounter.tables)
	}
}
