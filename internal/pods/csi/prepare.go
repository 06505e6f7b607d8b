package csi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
)

// driverSpec is the CSIDriver object of a driver, with defaults.
type driverSpec struct {
	attach          bool // attachRequired
	podInfo         bool
	republish       bool
	fsGroupPolicy   storagev1.FSGroupPolicy
	modes           []storagev1.VolumeLifecycleMode
	tokens          []storagev1.TokenRequest
	tokensInSecrets bool // serviceAccountTokenInSecrets
	limitChanges    bool // nodeAllocatableUpdatePeriodSeconds
	seLinuxMount    bool
}

// driverSpecOf returns the defaults for a driver without a CSIDriver object: persistent volumes that
// have to be attached.
func driverSpecOf(d *storagev1.CSIDriver) driverSpec {
	r := driverSpec{attach: true, fsGroupPolicy: storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, modes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}}
	if d == nil {
		return r
	}
	s := &d.Spec
	if s.AttachRequired != nil {
		r.attach = *s.AttachRequired
	}
	if s.FSGroupPolicy != nil {
		r.fsGroupPolicy = *s.FSGroupPolicy
	}
	if len(s.VolumeLifecycleModes) > 0 {
		r.modes = s.VolumeLifecycleModes
	}
	r.podInfo = ptr.Deref(s.PodInfoOnMount, false)
	r.republish = ptr.Deref(s.RequiresRepublish, false)
	r.tokensInSecrets = ptr.Deref(s.ServiceAccountTokenInSecrets, false)
	r.tokens = s.TokenRequests
	r.limitChanges = updatePeriodOf(s) > 0
	r.seLinuxMount = ptr.Deref(s.SELinuxMount, false)
	return r
}

// prepare collects the arguments of the calls to a driver. It calls none yet.
func (m *Manager) prepare(ctx context.Context, r *Request, d *driver) (*job, error) {
	described, err := m.Objects.CSIDriver(ctx, r.Pod, r.Driver)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("get csidriver %q: %w", r.Driver, err)
	}
	if err != nil {
		described = nil
	}
	j := &job{m: m, r: r, id: r.id(), driver: d, spec: driverSpecOf(described)}
	if err := j.checkLifecycleMode(); err != nil {
		return nil, err
	}
	if j.publishContext, err = j.attachment(ctx); err != nil {
		return nil, err
	}
	if j.stageSecrets, err = m.secret(ctx, r.Pod, r.StageSecret); err != nil {
		return nil, err
	}
	if j.publishSecrets, err = m.secret(ctx, r.Pod, r.PublishSecret); err != nil {
		return nil, err
	}
	j.attributes = maps.Clone(r.Attributes)
	if j.spec.podInfo {
		j.addPodInfo()
	}
	if err := j.addTokens(ctx); err != nil {
		return nil, err
	}
	if j.spec.seLinuxMount && r.SELinuxLabel != nil && !r.Block {
		if err := j.findLabel(); err != nil {
			return nil, err
		}
	}
	j.capability = j.capabilityOf()
	return j, nil
}

// checkLifecycleMode returns an error if the driver does not support ephemeral or persistent volumes.
func (j *job) checkLifecycleMode() error {
	want := storagev1.VolumeLifecyclePersistent
	if j.r.ephemeral() {
		want = storagev1.VolumeLifecycleEphemeral
	}
	if slices.Contains(j.spec.modes, want) {
		return nil
	}
	if j.r.ephemeral() {
		return fmt.Errorf("CSI driver %q has no volumes that are made for a pod: its CSIDriver object does not list Ephemeral in volumeLifecycleModes", j.id.driver)
	}
	return fmt.Errorf("CSI driver %q has no persistent volumes: its CSIDriver object does not list Persistent in volumeLifecycleModes", j.id.driver)
}

// attachable reports whether the cluster has to attach the volume to this node.
func (j *job) attachable() bool { return j.spec.attach && !j.r.ephemeral() }

// attachmentName returns the name of the VolumeAttachment of a volume and a node.
func attachmentName(v volumeID, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(v.handle+v.driver+node)))
}

// attachment returns the publish context of the VolumeAttachment, if the volume has to be attached.
func (j *job) attachment(ctx context.Context) (map[string]string, error) {
	if !j.attachable() {
		return nil, nil
	}
	if err := j.m.markInUse(ctx, j.id, j.r.Pod.UID); err != nil {
		return nil, j.notAttached(ctx, err)
	}
	a, err := j.m.Objects.VolumeAttachment(ctx, j.r.Pod, attachmentName(j.id, j.m.NodeName))
	switch {
	case apierrors.IsNotFound(err):
		return nil, &Waiting{"the volume to be attached to this node"}
	case err != nil:
		return nil, fmt.Errorf("get the volumeattachment: %w", err)
	case a.DeletionTimestamp != nil:
		return nil, &Waiting{fmt.Sprintf("the volume to be attached to this node: volumeattachment %s is being deleted", a.Name)}
	case a.Status.Attached:
		return a.Status.AttachmentMetadata, nil
	case a.Status.AttachError != nil:
		return nil, j.attachFailed(a.Status.AttachError)
	default:
		return nil, &Waiting{"the volume to be attached to this node"}
	}
}

// notAttached adds the reason of the attacher, if there is one, to the error of a volume that the
// cluster has not attached.
func (j *job) notAttached(ctx context.Context, err error) error {
	var waiting *Waiting
	if !errors.As(err, &waiting) {
		return err
	}
	a, getErr := j.m.Objects.VolumeAttachment(ctx, j.r.Pod, attachmentName(j.id, j.m.NodeName))
	if getErr != nil || a.Status.AttachError == nil {
		return err
	}
	return j.attachFailed(a.Status.AttachError)
}

func (j *job) attachFailed(e *storagev1.VolumeError) error {
	if j.spec.limitChanges && isExhausted(e) {
		j.m.noteExhausted(j.id.driver, e.Time.Time)
		if j.m.hasWaited(j.id, j.r.Pod.UID, attachTimeout) {
			return &AttachLimitExceeded{e.Message}
		}
	}
	return &Waiting{"the volume to be attached to this node: " + e.Message}
}

// secret returns the content of a secret for a driver, or nil without a reference.
func (m *Manager) secret(ctx context.Context, p *v1.Pod, ref *v1.SecretReference) (map[string]string, error) {
	if ref == nil {
		return nil, nil
	}
	if ref.Name == "" || ref.Namespace == "" {
		return nil, errors.New("the reference to a secret for the CSI driver needs a name and a namespace")
	}
	s, err := m.Objects.SecretIn(ctx, p, ref.Namespace, ref.Name)
	if err != nil {
		return nil, fmt.Errorf("get secret %s/%s for the CSI driver: %w", ref.Namespace, ref.Name, err)
	}
	out := make(map[string]string, len(s.Data))
	for key, value := range s.Data {
		out[key] = string(value)
	}
	return out, nil
}

// Keys of the volume context that drivers know.
const (
	attributePodName   = "csi.storage.k8s.io/pod.name"
	attributeNamespace = "csi.storage.k8s.io/pod.namespace"
	attributeUID       = "csi.storage.k8s.io/pod.uid"
	attributeAccount   = "csi.storage.k8s.io/serviceAccount.name"
	attributeEphemeral = "csi.storage.k8s.io/ephemeral"
	attributeTokens    = "csi.storage.k8s.io/serviceAccount.tokens"
)

func (j *job) addPodInfo() {
	account := j.r.Pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	j.addAttribute(attributePodName, j.r.Pod.Name)
	j.addAttribute(attributeNamespace, j.r.Pod.Namespace)
	j.addAttribute(attributeUID, string(j.r.Pod.UID))
	j.addAttribute(attributeAccount, account)
	j.addAttribute(attributeEphemeral, strconv.FormatBool(j.r.ephemeral()))
}

func (j *job) addAttribute(key, value string) {
	if j.attributes == nil {
		j.attributes = map[string]string{}
	}
	j.attributes[key] = value
}

// addTokens adds the tokens of the pod's service account that the driver asks for.
func (j *job) addTokens(ctx context.Context) error {
	if len(j.spec.tokens) == 0 {
		return nil
	}
	type token struct {
		Token   string    `json:"token"`
		Expires time.Time `json:"expirationTimestamp"`
	}
	all := map[string]token{}
	for _, want := range j.spec.tokens {
		var seconds int64
		if want.ExpirationSeconds != nil {
			seconds = *want.ExpirationSeconds
		}
		value, expires, refreshAt, err := j.m.Objects.Token(ctx, j.r.Pod, want.Audience, seconds)
		if err != nil {
			return fmt.Errorf("get a token of the service account for the CSI driver: %w", err)
		}
		all[want.Audience] = token{value, expires.UTC()}
		if j.tokensUntil.IsZero() || refreshAt.Before(j.tokensUntil) {
			j.tokensUntil = refreshAt
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("put tokens into words: %w", err)
	}
	if !j.spec.tokensInSecrets {
		j.addAttribute(attributeTokens, string(text))
		return nil
	}
	if j.publishSecrets == nil {
		j.publishSecrets = map[string]string{}
	}
	j.publishSecrets[attributeTokens] = string(text)
	return nil
}

// capabilityOf returns the volume capability of the request: access mode, access type, mount options.
func (j *job) capabilityOf() *spec.VolumeCapability {
	out := &spec.VolumeCapability{
		AccessMode: &spec.VolumeCapability_AccessMode{Mode: accessMode(j.r.AccessModes, j.driver.can[spec.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER])},
	}
	if j.r.Block {
		out.AccessType = &spec.VolumeCapability_Block{Block: &spec.VolumeCapability_BlockVolume{}}
		return out
	}
	mount := &spec.VolumeCapability_MountVolume{FsType: j.r.FSType, MountFlags: j.mountFlags()}
	if j.driverAppliesFSGroup() {
		mount.VolumeMountGroup = strconv.Itoa(j.r.Group)
	}
	out.AccessType = &spec.VolumeCapability_Mount{Mount: mount}
	return out
}

// accessMode returns the CSI access mode for the first of the modes. exact: the driver distinguishes
// one pod from several on a node.
func accessMode(modes []v1.PersistentVolumeAccessMode, exact bool) spec.VolumeCapability_AccessMode_Mode {
	mode := v1.ReadWriteOnce
	if len(modes) > 0 {
		mode = modes[0]
	}
	switch {
	case mode == v1.ReadWriteMany:
		return spec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	case mode == v1.ReadOnlyMany:
		return spec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case mode == v1.ReadWriteOncePod && exact:
		return spec.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	case mode == v1.ReadWriteOnce && exact:
		return spec.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	default:
		return spec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	}
}

// oneNode reports whether a volume can be mounted by one node at a time.
func oneNode(modes []v1.PersistentVolumeAccessMode) bool {
	return slices.Contains(modes, v1.ReadWriteOnce) || slices.Contains(modes, v1.ReadWriteOncePod)
}
