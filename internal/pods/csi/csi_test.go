package csi

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodsShareAStagedVolume(t *testing.T) {
	w := newWorld(t)
	a, b := w.request("a", "h"), w.request("b", "h")

	// given two pods with the same volume
	if got := w.mount(a); got.Path != a.Dir+"/mount" || !got.RepublishAt.IsZero() {
		t.Error(got)
	}
	w.mount(b)
	w.mount(a) // which does nothing
	w.expect("stage h", "publish h", "publish h")
	staged, published := w.driver.stages[0], w.driver.publishes[1]
	if staged.StagingTargetPath != published.StagingTargetPath || !strings.HasPrefix(staged.StagingTargetPath, w.cfg.PluginsDir+"/kubernetes.io/csi/"+disks+"/") {
		t.Error(staged, published)
	}
	if _, err := os.Stat(staged.StagingTargetPath); err != nil {
		t.Error(err)
	}

	// when the agent is another one, then the disk tells who has it
	w.restart()
	w.mount(a) // which needs no driver
	w.register()
	w.unmount(a)
	w.unmount(a)
	w.expect("unpublish h")
	w.unmount(b)
	w.expect("unpublish h", "unstage h")
	w.nothingLeft()
}

func TestTheRecordComesFirst(t *testing.T) {
	w := newWorld(t)
	r := w.request("a", "h")
	r.Group, r.FSType = 7, "ext4"
	r.ApplyFSGroup = func(dir string) error {
		if dir != r.Dir+"/mount" {
			t.Error(dir)
		}
		return errors.New("no such group")
	}
	// given a driver that fails at each step, in turn
	for i, step := range []string{"stage h", "publish h", "group"} {
		w.driver.before = func(call string) error {
			if rec, err := readRecord(r.Dir); err != nil || rec == nil || rec.Ready {
				t.Error("not written down before", call, rec, err)
			}
			if call == step {
				return errors.New("out of disks")
			}
			return nil
		}
		if i == 2 {
			w.mountFails(r, "no such group")
		} else {
			w.mountFails(r, `CSI driver "disks.example.com": Node`)
		}
		w.driver.before = nil
		// when the agent was killed there, then all of it is undone
		w.restart()
		w.register()
		w.driver.take()
		w.unmount(r)
		w.expect("unpublish h", "unstage h")
		w.nothingLeft()
	}
}

func TestAfterARebootAVolumeIsMadeAnew(t *testing.T) {
	w := newWorld(t)
	a, b := w.request("a", "h"), w.request("b", "h")
	w.mount(a)
	w.mount(b)
	w.driver.take()
	w.driver.reboot()
	w.restart()
	w.register()
	w.mount(a)
	w.mount(b)
	w.expect("stage h", "publish h", "publish h")
}

func TestADriverThatIsNotThere(t *testing.T) {
	w := newWorld(t)
	r := w.request("a", "h")
	w.mount(r)
	w.m.Unregister(disks)
	w.mount(r) // it has it

	err := w.m.Unmount(t.Context(), "a", r.Dir, r.OnStep)
	if err == nil || !strings.Contains(err.Error(), `CSI driver "disks.example.com" is not registered on this node`) {
		t.Error(err)
	}
	w.mountFails(w.request("b", "h2"), "is not registered on this node")
	if left, _ := filepath.Glob(w.cfg.PodsDir + "/b/*"); len(left) > 0 {
		t.Error("written down, although nothing was asked for:", left)
	}
	w.mountFails(w.request("c", "h3"), "is not registered on this node")
	w.m.Forget("c")

	w.register()
	for _, want := range []string{"a", "b"} {
		if got := <-w.woken; string(got) != want {
			t.Errorf("%s was woken, want %s", got, want)
		}
	}
	if len(w.woken) > 0 {
		t.Error("a pod was woken that is gone")
	}
	w.unmount(r)
	w.nothingLeft()
}

func TestADriverThatHangsHoldsUpOneVolume(t *testing.T) {
	w := newWorld(t)
	w.cfg.CallTimeout = 200 * time.Millisecond
	w.restart()
	w.register()
	block := make(chan struct{})
	w.driver.before = func(call string) error {
		if call == "publish slow" {
			<-block
		}
		return nil
	}
	slow := make(chan error, 1)
	go func() {
		_, err := w.m.Mount(context.Background(), w.request("a", "slow"))
		slow <- err
	}()
	waitFor(t, func() bool {
		w.driver.mu.Lock()
		defer w.driver.mu.Unlock()
		return len(w.driver.calls) == 1 // it is staged, and so being published
	})
	w.mount(w.request("b", "quick"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := w.m.Mount(ctx, w.request("c", "slow")); err == nil || !strings.Contains(err.Error(), "for another pod") {
		t.Error(err)
	}
	if err := <-slow; err == nil || !strings.Contains(err.Error(), "DeadlineExceeded") {
		t.Error(err)
	}
	close(block)
	w.mount(w.request("a", "slow"))
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatal("it does not happen")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestAVolumeOfAPodAlone(t *testing.T) {
	w := newWorld(t)
	w.mountFails(w.request("a", ""), "does not list Ephemeral")
	w.described().VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}
	w.described().PodInfoOnMount = new(true)
	w.mountFails(w.request("a", "h"), "does not list Persistent")
	r := w.request("a", "")
	r.Attributes = map[string]string{"size": "1"}
	r.PublishSecret = &v1.SecretReference{Namespace: "shop", Name: "key"}
	w.mountFails(r, "get secret shop/key")
	w.objects.secrets["shop/key"] = &v1.Secret{Data: map[string][]byte{"pass": []byte("word")}}

	w.mount(r)

	got := w.driver.publishes[0]
	want := map[string]string{
		"size": "1", attributePodName: "web-a", attributeNamespace: "shop", attributeUID: "a", attributeAccount: "default", attributeEphemeral: "true",
	}
	for key, value := range want {
		if got.VolumeContext[key] != value {
			t.Errorf("%s is %q, want %q", key, got.VolumeContext[key], value)
		}
	}
	if got.Secrets["pass"] != "word" || got.StagingTargetPath != "" || !strings.HasPrefix(got.VolumeId, "csi-") || len(r.Attributes) != 1 {
		t.Error(got)
	}
	w.unmount(r)
	w.expect("publish "+got.VolumeId, "unpublish "+got.VolumeId)
	w.nothingLeft()
}

func TestAVolumeIsAttachedFirst(t *testing.T) {
	w := newWorld(t)
	delete(w.objects.drivers, disks) // of which nothing is said
	r := w.request("a", "h")
	var waiting *Waiting
	if err := w.failure(r, "waiting for the volume to be attached to this node"); !errors.As(err, &waiting) {
		t.Error(err)
	}
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	w.objects.attachments[attachmentName(r.id(), "box")] = attachment
	w.mountFails(r, "waiting")
	attachment.Status.AttachError = &storagev1.VolumeError{Message: "no slot is free"}
	w.mountFails(r, "no slot is free")
	attachment.DeletionTimestamp = new(metav1.Now())
	w.mountFails(r, "is being deleted")
	w.expect()
	attachment.DeletionTimestamp, attachment.Status = nil, storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"slot": "3"}}
	w.mount(r)
	if w.driver.stages[0].PublishContext["slot"] != "3" || w.driver.publishes[0].PublishContext["slot"] != "3" {
		t.Error(w.driver.stages[0], w.driver.publishes[0])
	}
}

func TestTheNameOfAnAttachmentIsThatOfTheCluster(t *testing.T) {
	// the sum of volume-1disks.example.combox
	const want = "csi-8f0d0ff8fbf1b125e4b58eb856035497ccb3eb2f43bec62968645264950c6c40"
	if got := attachmentName(volumeID{disks, "volume-1"}, "box"); got != want {
		t.Error(got)
	}
}

func TestADriverCanHaveOnlySoManyVolumes(t *testing.T) {
	w := newWorld(t)
	w.described().VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}
	w.driver.info.MaxVolumesPerNode = 2
	w.alone()
	w.mount(w.request("own", "")) // it does not count
	w.mount(w.request("a", "1"))
	w.mount(w.request("a", "2"))
	w.mount(w.request("b", "2")) // the same
	w.mountFails(w.request("c", "3"), "can have 2 volumes on this node")
	w.mount(w.request("own-too", ""))
	w.unmount(w.request("a", "1"))
	w.mount(w.request("c", "3"))
}

// The scheduler of a cluster counts them, by what the driver says now.
func TestAClusterCountsTheVolumesOfADriver(t *testing.T) {
	w := newWorld(t)
	w.driver.info.MaxVolumesPerNode = 1
	w.register()
	w.mount(w.request("a", "1"))
	w.mount(w.request("b", "2"))
}

func TestTokensAreRenewed(t *testing.T) {
	w := newWorld(t)
	s := w.described()
	s.TokenRequests = []storagev1.TokenRequest{{Audience: "vault"}}
	s.RequiresRepublish = new(true)
	r := w.request("a", "h")
	for range 2 {
		if got := w.mount(r); time.Until(got.RepublishAt) > 11*time.Second || got.RepublishAt.IsZero() {
			t.Error(got)
		}
	}
	w.expect("stage h", "publish h", "publish h")
	var tokens map[string]map[string]string
	text := w.driver.publishes[1].VolumeContext[attributeTokens]
	if err := json.Unmarshal([]byte(text), &tokens); err != nil || tokens["vault"]["token"] != "token of web-a for vault" || tokens["vault"]["expirationTimestamp"] != "2030-01-01T00:00:00Z" {
		t.Error(text, err)
	}
	if _, has := w.driver.stages[0].VolumeContext[attributeTokens]; has {
		t.Error("a driver got a token that it does not need")
	}
	// one that can't be renewed can be used nevertheless, and is tried again
	w.driver.before = func(string) error { return errors.New("out of order") }
	if got, err := w.m.Mount(t.Context(), r); err == nil || got.Path == "" || got.RepublishAt.IsZero() {
		t.Error(got, err)
	}
	w.driver.before = nil
	w.m.Unregister(disks)
	if got, err := w.m.Mount(t.Context(), r); err == nil || got.Path == "" || got.RepublishAt.IsZero() {
		t.Error(got, err)
	}
	w.register()
	s.ServiceAccountTokenInSecrets = new(true)
	w.mount(r)
	if last := w.driver.publishes[3]; last.Secrets[attributeTokens] != text || last.VolumeContext[attributeTokens] != "" {
		t.Error(last)
	}
}

func TestWhatIsPublishedAnewIsGivenToTheGroup(t *testing.T) {
	// given a driver that writes new files with each call
	w := newWorld(t)
	w.described().RequiresRepublish = new(true)
	r := w.request("a", "h")
	r.Group, r.FSType = 7, "ext4"
	given := 0
	r.ApplyFSGroup = func(string) error { given++; return nil }
	for calls := 1; calls <= 2; calls++ {
		if w.mount(r); given != calls {
			t.Errorf("after %d calls it was given to the group %d times", calls, given)
		}
	}
	// when that fails, then the pod has what it has
	r.ApplyFSGroup = func(string) error { return errors.New("no such group") }
	if got, err := w.m.Mount(t.Context(), r); err == nil || got.Path == "" || got.RepublishAt.IsZero() {
		t.Error(got, err)
	}
}

func TestWhetherTheDriverSetsTheGroup(t *testing.T) {
	const mounts = spec.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP
	once, many := []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}, []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	for _, c := range []struct {
		policy storagev1.FSGroupPolicy
		r      Request
		can    spec.NodeServiceCapability_RPC_Type
		we     bool
		group  string
	}{
		{storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, Request{Group: 7, FSType: "ext4", AccessModes: once}, 0, true, ""},
		{storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, Request{Group: 7, FSType: "ext4", AccessModes: once}, mounts, false, "7"},
		{storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, Request{Group: 7, FSType: "", AccessModes: once}, 0, false, ""},
		{storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, Request{Group: 7, FSType: "nfs", AccessModes: many}, 0, false, ""},
		{storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, Request{Group: 7, FSType: "ext4", AccessModes: once, ReadOnly: true}, 0, false, ""},
		{storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, Request{Group: -1, FSType: "ext4", AccessModes: once}, mounts, false, ""},
		{storagev1.FileFSGroupPolicy, Request{Group: 7, AccessModes: many}, 0, true, ""},
		{storagev1.NoneFSGroupPolicy, Request{Group: 7, FSType: "ext4", AccessModes: once}, 0, false, ""},
	} {
		j := &job{r: &c.r, driver: &driver{can: map[spec.NodeServiceCapability_RPC_Type]bool{c.can: true}}, spec: driverSpec{fsGroupPolicy: c.policy}}
		if got := j.appliesFSGroup(); got != c.we {
			t.Errorf("%+v: %v", c, got)
		}
		if got := j.capabilityOf().GetMount().VolumeMountGroup; got != c.group {
			t.Errorf("%+v: the driver got %q", c, got)
		}
	}
}

func TestAccessModes(t *testing.T) {
	for _, c := range []struct {
		mode        v1.PersistentVolumeAccessMode
		plain, fine spec.VolumeCapability_AccessMode_Mode
	}{
		{v1.ReadWriteOnce, spec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, spec.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER},
		{v1.ReadWriteOncePod, spec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, spec.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER},
		{v1.ReadOnlyMany, spec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY, spec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY},
		{v1.ReadWriteMany, spec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, spec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
	} {
		modes := []v1.PersistentVolumeAccessMode{c.mode}
		if accessMode(modes, false) != c.plain || accessMode(modes, true) != c.fine {
			t.Error(c.mode, accessMode(modes, false), accessMode(modes, true))
		}
	}
}

func TestDriversThatAreRefused(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name, endpoint, version string
		says                    string
	}{
		{"", "/s", "1.0.0", "not the name of a driver"},
		{"../x", "/s", "1.0.0", "not the name of a driver"},
		{strings.Repeat("a", 64), "/s", "1.0.0", "not the name of a driver"},
		{"a.example.com", "s", "1.0.0", "not an absolute path"},
		{"a.example.com", "/s", "0.3.0", "version 1 is needed"},
	} {
		if err := w.m.Validate(c.name, c.endpoint, []string{c.version}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := w.m.Validate("Disks.example.com", "/s", []string{"0.3.0", "v1.9.0"}); err != nil {
		t.Error(err)
	}
	w.driver.info.NodeId = ""
	if err := w.m.Register(t.Context(), disks, w.driver.endpoint, nil); err == nil || !strings.Contains(err.Error(), "no name for this node") {
		t.Error(err)
	}
	if err := w.m.Register(t.Context(), disks, "/no/such.sock", nil); err == nil || !strings.Contains(err.Error(), "NodeGetInfo") {
		t.Error(err)
	}
}

func TestNewNamesMissingFields(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("an empty configuration is taken")
	}
	if _, err := NewReporter(ReporterConfig{}); err == nil {
		t.Error("an empty configuration is taken")
	}
}
