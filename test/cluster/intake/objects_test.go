//go:build real

package intake

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"berth/internal/intake/objects"
	"berth/test/cluster/kit"
	"berth/test/lab/control"
)

// references are the objects that the pods of node one refer to, as the node knows them, and its notifications of changes.
type references struct {
	*objects.API
	mu   sync.Mutex
	news []types.UID
}

func startReferences(t *testing.T, client kubernetes.Interface) *references {
	t.Helper()
	r := &references{}
	a, err := objects.NewAPI(objects.APIConfig{
		Client: client, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Enqueue: func(_ context.Context, uid types.UID) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.news = append(r.news, uid)
		},
	})
	kit.Must(t, err)
	r.API = a
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

// awaitNews returns once a change of an object of a pod is notified, and how long that took.
func (r *references) awaitNews(t *testing.T, uid types.UID, limit time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	for time.Since(began) < limit {
		r.mu.Lock()
		enqueued := slices.Contains(r.news, uid)
		r.news = nil
		r.mu.Unlock()
		if enqueued {
			return time.Since(began)
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("pod %s was not notified within %s", uid, limit)
	return 0
}

// inTime retries for a few seconds: the API server takes a moment to notice what a node may read.
func inTime(try func() error) error {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if err := try(); err == nil || time.Since(began) > 5*time.Second {
			return err
		}
	}
}

func metaOf(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "default"}
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metaOf(name), Data: map[string]string{"key": value}}
}

// referringPod refers to one object of each kind.
func referringPod(name, node string) *corev1.Pod {
	p := kit.BoundPod(name, node, "password")
	p.Namespace = "default"
	p.Spec.ServiceAccountName = "robot"
	p.Spec.AutomountServiceAccountToken = new(false)
	p.Spec.RuntimeClassName = new("gvisor")
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}})
	// A node gets tokens only for the audiences that its pods ask for.
	var tokens []corev1.VolumeProjection
	for _, audience := range []string{"", "vault"} {
		tokens = append(tokens, corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: audience, Path: "token" + audience,
		}})
	}
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "tokens", VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: tokens},
	}})
	for _, name := range []string{"settings", "fixed"} {
		p.Spec.Containers[0].EnvFrom = append(p.Spec.Containers[0].EnvFrom, corev1.EnvFromSource{
			ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		})
	}
	return p
}

// referredTo creates the objects that referringPod refers to, but for its Secret.
func referredTo(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	core := admin.CoreV1()
	_, err := core.ConfigMaps("default").Create(t.Context(), configMap("settings", "1"), kit.CreateOptions)
	kit.Must(t, err)
	fixed := configMap("fixed", "1")
	fixed.Immutable = new(true)
	_, err = core.ConfigMaps("default").Create(t.Context(), fixed, kit.CreateOptions)
	kit.Must(t, err)
	_, err = core.ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metaOf("robot")}, kit.CreateOptions)
	kit.Must(t, err)
	_, err = admin.NodeV1().RuntimeClasses().Create(t.Context(), &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Handler: "runsc"}, kit.CreateOptions)
	kit.Must(t, err)
	room := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	_, err = core.PersistentVolumeClaims("default").Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metaOf("data"), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: "disk",
		Resources: corev1.VolumeResourceRequirements{Requests: room},
	}}, kit.CreateOptions)
	kit.Must(t, err)
	_, err = core.PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: room,
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: "data"},
	}}, kit.CreateOptions)
	kit.Must(t, err)
}

// A node reads the objects that its pods refer to with no more rights than a node has, and its pods
// are enqueued when they change, even if the API server was away or has lost everything.
func TestNodeReadsWhatItsPodsReferTo(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t)
	ctx := t.Context()
	admin := kit.Client(t, plane, control.Admin())
	one := kit.Client(t, plane, control.Node("one"))
	kit.Must(t, kit.RegisterNode(ctx, one, "one"))
	referredTo(t, admin)
	node := startReferences(t, one)
	select {
	case <-node.Synced():
	case <-time.After(10 * time.Second):
		t.Fatal("the services were not read")
	}

	// When a pod is bound, everything is there at once, and what is missing is said to be.
	p, err := admin.CoreV1().Pods("default").Create(ctx, referringPod("web", "one"), kit.CreateOptions)
	kit.Must(t, err)
	began := time.Now()
	node.Register(p)
	mustHaveSetting(t, node, "1")
	fixed, err := node.ConfigMap(ctx, "default", "fixed")
	kit.Must(t, err)
	if _, err := node.Secret(ctx, "default", "password"); !apierrors.IsNotFound(err) {
		t.Errorf("the secret does not exist, and the getter says: %v", err)
	}
	took := time.Since(began)
	t.Logf("what the pod refers to was known after %s", took)
	if fixed.Data["key"] != "1" || fixed.ManagedFields != nil || took > 2*time.Second {
		t.Errorf("it took %s, and is %v", took, fixed)
	}
	mustReadPlainObjects(t, node)

	// When the missing one appears, and when another one changes, the pod is enqueued.
	_, err = admin.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metaOf("password"), StringData: map[string]string{"key": "hush"}}, kit.CreateOptions)
	kit.Must(t, err)
	t.Logf("a secret that appears is noticed after %s", node.awaitNews(t, p.UID, 5*time.Second))
	secret, err := node.Secret(ctx, "default", "password")
	kit.Must(t, err)
	if string(secret.Data["key"]) != "hush" {
		t.Error("the secret is another one")
	}
	mustSet(t, admin, "2")
	took = node.awaitNews(t, p.UID, 5*time.Second)
	t.Logf("a change is noticed after %s", took)
	mustHaveSetting(t, node, "2")
	if took > time.Second {
		t.Errorf("it took %s", took)
	}

	mustGetTokens(t, node, admin, p)
	mustNotReadForOthers(t, node, admin)

	// While the API server is away, what is known is there. When it is back, so are the news.
	plane.Kill(control.APIServer)
	time.Sleep(3 * time.Second) // backoffs grow with the length of an outage
	mustHaveSetting(t, node, "2")
	kit.Must(t, plane.Start(ctx, control.APIServer))
	mustSet(t, admin, "3")
	t.Logf("after the outage, a change is noticed after %s", node.awaitNews(t, p.UID, 5*time.Second))
	mustHaveSetting(t, node, "3")

	// A server that forgot everything, and counts its versions from the start.
	plane.Kill(control.APIServer) // asked to stop, it would wait a minute for our watches
	kit.Must(t, plane.WipeEtcd(ctx))
	kit.Must(t, plane.Start(ctx, control.APIServer))
	kit.Must(t, kit.RegisterNode(ctx, one, "one"))
	referredTo(t, admin)
	_, err = admin.CoreV1().Pods("default").Create(ctx, referringPod("web", "one"), kit.CreateOptions)
	kit.Must(t, err)
	t.Logf("after the wipe, a change is noticed after %s", node.awaitNews(t, p.UID, 30*time.Second))
	kit.Must(t, inTime(func() error {
		c, err := node.ConfigMap(ctx, "default", "settings")
		if err == nil && c.Data["key"] != "1" {
			err = errors.New("settings are still " + c.Data["key"])
		}
		return err
	}))
}

func mustSet(t *testing.T, admin kubernetes.Interface, value string) {
	t.Helper()
	_, err := admin.CoreV1().ConfigMaps("default").Update(t.Context(), configMap("settings", value), metav1.UpdateOptions{})
	kit.Must(t, err)
}

func mustHaveSetting(t *testing.T, node *references, value string) {
	t.Helper()
	c, err := node.ConfigMap(t.Context(), "default", "settings")
	kit.Must(t, err)
	if c.Data["key"] != value {
		t.Errorf("the setting is %q, want %q", c.Data["key"], value)
	}
}

func mustReadPlainObjects(t *testing.T, node *references) {
	t.Helper()
	class, err := node.RuntimeClass(t.Context(), "gvisor")
	kit.Must(t, err)
	claim, err := node.PersistentVolumeClaim(t.Context(), "default", "data")
	kit.Must(t, err)
	var volume *corev1.PersistentVolume
	kit.Must(t, inTime(func() (err error) {
		volume, err = node.PersistentVolume(t.Context(), claim.Spec.VolumeName)
		return err
	}))
	account, err := node.ServiceAccount(t.Context(), "default", "robot")
	kit.Must(t, err)
	var services []*corev1.Service
	kit.Must(t, inTime(func() (err error) {
		// The API server makes its own a moment after it is ready.
		if services, err = node.Services(t.Context(), "elsewhere"); err == nil && len(services) == 0 {
			err = errors.New("there are no services")
		}
		return err
	}))
	if class.Handler != "runsc" || volume.Spec.HostPath.Path != "/data" || account.Name != "robot" ||
		len(services) != 1 || services[0].Name != "kubernetes" || services[0].Spec.ClusterIP == "" {
		t.Errorf("have %v, %v, %v, %v", class, volume, account, services)
	}
	if _, err := node.RuntimeClass(t.Context(), "none"); !apierrors.IsNotFound(err) {
		t.Errorf("there is no such class, and the getter says: %v", err)
	}
}

// mustGetTokens checks that the API server accepts the tokens of a pod.
func mustGetTokens(t *testing.T, node *references, admin kubernetes.Interface, p *corev1.Pod) {
	t.Helper()
	token, expires, refresh, err := node.Token(t.Context(), p, "", 600)
	kit.Must(t, err)
	if life := time.Until(expires); life < 9*time.Minute || !refresh.Before(expires) {
		t.Errorf("it lives for %s, and is to be refreshed at %s", life, refresh)
	}
	review, err := admin.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, kit.CreateOptions)
	kit.Must(t, err)
	user := review.Status.User
	if user.Username != "system:serviceaccount:default:robot" || !slices.Contains(user.Extra["authentication.kubernetes.io/pod-uid"], string(p.UID)) {
		t.Errorf("the token is that of %v", user)
	}
	if again, _, _, err := node.Token(t.Context(), p, "", 600); again != token || err != nil {
		t.Errorf("asked again, it is another token: %v", err)
	}
	if vault, _, _, err := node.Token(t.Context(), p, "vault", 600); vault == token || err != nil {
		t.Errorf("for another audience, it is the same token: %v", err)
	}
	if _, _, _, err := node.Token(t.Context(), p, "unknown", 600); !apierrors.IsForbidden(err) {
		t.Errorf("for an audience that the pod does not name: %v", err)
	}
}

// mustNotReadForOthers checks that a node gets an error for objects that only pods of another node
// refer to.
func mustNotReadForOthers(t *testing.T, node *references, admin kubernetes.Interface) {
	t.Helper()
	_, err := admin.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metaOf("not-ours")}, kit.CreateOptions)
	kit.Must(t, err)
	other, err := admin.CoreV1().Pods("default").Create(t.Context(), kit.BoundPod("other", "two", "not-ours"), kit.CreateOptions)
	kit.Must(t, err)
	node.Register(other)
	defer node.Unregister(other.UID)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := node.Secret(ctx, "default", "not-ours"); err == nil || !strings.Contains(err.Error(), "no relationship found between node") {
		t.Errorf("the secret of another node's pod: %v", err)
	}
	if _, _, _, err := node.Token(t.Context(), other, "", 600); !apierrors.IsForbidden(err) {
		t.Errorf("a token of another node's pod: %v", err)
	}
}
