package csi

import (
	"context"
	"errors"
	"strings"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// expandable makes the driver one with NodeExpandVolume.
func (w *world) expandable() {
	w.t.Helper()
	w.driver.can = append(w.driver.can, spec.NodeServiceCapability_RPC_EXPAND_VOLUME)
	w.register()
}

// expansion is of the volume of a request, to 2 KiB.
func (w *world) expansion(r Request) Expansion {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: r.Name}}
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: r.Driver, VolumeHandle: r.Handle, FSType: "ext4"}
	pv.Spec.AccessModes, pv.Spec.MountOptions = r.AccessModes, []string{"noatime"}
	if r.Block {
		pv.Spec.VolumeMode = new(v1.PersistentVolumeBlock)
	}
	return Expansion{Pod: r.Pod, PV: pv, Dir: r.Dir, Bytes: 2048}
}

func TestAMountedVolumeIsExpandedByItsDriver(t *testing.T) {
	w := newWorld(t)
	w.expandable()
	r := w.request("u-1", "d-1")
	path := w.mount(r).Path
	e := w.expansion(r)
	e.PV.Spec.CSI.NodeExpandSecretRef = &v1.SecretReference{Namespace: "safe", Name: "key"}
	w.objects.secrets["safe/key"] = &v1.Secret{Data: map[string][]byte{"user": []byte("me")}}
	if err := w.m.Expand(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	w.expect("stage d-1", "publish d-1", "expand d-1")
	got := w.driver.expands[0]
	if got.VolumePath != path || got.StagingTargetPath != w.m.staging(&r) || got.CapacityRange.RequiredBytes != 2048 || got.Secrets["user"] != "me" {
		t.Errorf("the request is %v", got)
	}
	if mount := got.VolumeCapability.GetMount(); mount.FsType != "ext4" || len(mount.MountFlags) != 1 {
		t.Errorf("the capability is %v", got.VolumeCapability)
	}
}

func TestADeviceIsExpandedWhereItIsPublished(t *testing.T) {
	w := newWorld(t)
	w.expandable()
	r := w.request("u-1", "d-1")
	r.Block = true
	path := w.mount(r).Path
	if err := w.m.Expand(t.Context(), w.expansion(r)); err != nil {
		t.Fatal(err)
	}
	if got := w.driver.expands[0]; got.VolumePath != path || got.VolumeCapability.GetBlock() == nil || got.StagingTargetPath != w.m.deviceStaging(r.Name) {
		t.Errorf("the request is %v", got)
	}
}

func TestAVolumeThatCantBeExpanded(t *testing.T) {
	w := newWorld(t)
	r := w.request("u-1", "d-1")
	w.mount(r)
	if err := w.m.Expand(t.Context(), w.expansion(r)); !errors.Is(err, ErrCantExpand) || w.m.CanExpand(disks) {
		t.Error("by a driver without NodeExpandVolume:", err)
	}
	w.expandable()
	w.driver.before = func(string) error { return status.Error(codes.OutOfRange, "too large") }
	var answer *CallError
	if err := w.m.Expand(t.Context(), w.expansion(r)); !errors.As(err, &answer) || !answer.Infeasible() || !answer.Final() || answer.InUse() {
		t.Error("to a size that is not possible:", err)
	}
	w.driver.before = nil
	w.unmount(r)
	if err := w.m.Expand(t.Context(), w.expansion(r)); err == nil || !strings.Contains(err.Error(), "unmounted") {
		t.Error("after it was unmounted:", err)
	}
	w.m.Unregister(disks)
	if err := w.m.Expand(t.Context(), w.expansion(r)); err == nil || !strings.Contains(err.Error(), "not registered") || !w.m.CanExpand(disks) {
		t.Error("without its driver:", err)
	}
}

func TestTheSizeOfAVolumeIsOnRecord(t *testing.T) {
	w := newWorld(t)
	size := func(want int64) {
		t.Helper()
		if got, err := w.m.Size(disks, "d-1"); err != nil || got != want {
			t.Errorf("the size is %d, want %d: %v", got, want, err)
		}
	}
	first, second := w.request("u-1", "d-1"), w.request("u-2", "d-1")
	first.Size, second.Size = 1024, 4096 // the claim of the second has a size that this node has not
	w.mount(first)
	size(1024)
	w.mount(second)
	size(1024)
	if err := w.m.SetSize(t.Context(), disks, "d-1", 2048); err != nil {
		t.Fatal(err)
	}
	w.unmount(first)
	w.restart()
	size(2048)
	w.register()
	w.expect("stage d-1", "publish d-1", "publish d-1", "unpublish d-1") // the record of the second is still that of a mounted volume
	w.mount(second)
	w.expect()
	w.unmount(second)
	size(0)
}

func TestAVolumeIsNotMountedBeforeItWasExpanded(t *testing.T) {
	w := newWorld(t)
	r := w.request("u-1", "d-1")
	r.Expand = func(context.Context) error { return errors.New("too full") }
	w.mountFails(r, "too full")
	w.restart() // the record says so, too
	w.register()
	w.mountFails(r, "too full")
	w.driver.take()
	expanded := 0
	r.Expand = func(context.Context) error {
		expanded++
		return nil
	}
	w.mount(r)
	w.mount(r)
	if expanded != 1 {
		t.Errorf("expanded %d times", expanded)
	}
	w.expect("stage d-1", "publish d-1")
	w.unmount(r)
	w.nothingLeft()
}

func TestAVolumeIsStagedOnceWhileItIsExpanded(t *testing.T) {
	w := newWorld(t)
	first, second := w.request("u-1", "d-1"), w.request("u-2", "d-1")
	first.Expand = func(context.Context) error {
		w.mount(second)
		return nil
	}
	w.mount(first)
	w.expect("stage d-1", "publish d-1", "publish d-1")
}
