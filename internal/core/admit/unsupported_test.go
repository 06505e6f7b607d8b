package admit

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth/internal/lib/pod"
)

const otherDevices = "volumeDevices other than persistentVolumeClaim, ephemeral"

func TestUnsupportedFeatures(t *testing.T) {
	onPod := func(f func(*v1.PodSecurityContext)) func(*v1.PodSpec, *v1.Container) {
		return func(s *v1.PodSpec, _ *v1.Container) {
			s.SecurityContext = &v1.PodSecurityContext{}
			f(s.SecurityContext)
		}
	}
	on := func(f func(*v1.SecurityContext)) func(*v1.PodSpec, *v1.Container) {
		return func(_ *v1.PodSpec, c *v1.Container) {
			c.SecurityContext = &v1.SecurityContext{}
			f(c.SecurityContext)
		}
	}
	gpu := v1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	const inPod, inContainer = "spec.", "spec.containers[app]."

	// Each row has its case: what is set, and the field that the message names.
	tests := map[string]func(*v1.PodSpec, *v1.Container){
		inPod + "resourceClaims": func(s *v1.PodSpec, _ *v1.Container) { s.ResourceClaims = make([]v1.PodResourceClaim, 1) },
		inPod + "resources.claims": func(s *v1.PodSpec, _ *v1.Container) {
			s.Resources = &v1.ResourceRequirements{Claims: make([]v1.ResourceClaim, 1)}
		},
		inPod + "securityContext.windowsOptions": onPod(func(c *v1.PodSecurityContext) { c.WindowsOptions = &v1.WindowsSecurityContextOptions{} }),
		inContainer + otherDevices:               func(_ *v1.PodSpec, c *v1.Container) { c.VolumeDevices = make([]v1.VolumeDevice, 1) },
		inContainer + "resources.claims":         func(_ *v1.PodSpec, c *v1.Container) { c.Resources.Claims = make([]v1.ResourceClaim, 1) },
		inContainer + "resources other than cpu, memory, ephemeral-storage, hugepages": func(_ *v1.PodSpec, c *v1.Container) {
			c.Resources.Limits = gpu
		},
		inContainer + "securityContext.windowsOptions": on(func(c *v1.SecurityContext) { c.WindowsOptions = &v1.WindowsSecurityContextOptions{} }),
	}
	for field, edit := range tests {
		t.Run(field, func(t *testing.T) {
			p := newPod("web")
			edit(&p.Spec, &p.Spec.Containers[0])
			got := Check(p, nil, Node{})
			want := Rejection{pod.ReasonFeatureUnsupported, "not supported yet: " + field}
			if got == nil || *got != want {
				t.Errorf("got %+v, wanted %+v", got, want)
			}
		})
	}
	if rows := len(podFeatures) + len(containerFeatures); rows != len(tests) {
		t.Errorf("%d rows, %d cases", rows, len(tests))
	}
}

// Another client may add extended resources to the Node. They are counted like the rest.
func TestResourcesThatTheNodeAnnounces(t *testing.T) {
	node := Node{InCluster: true, Allocatable: list("cpu", "4", "memory", "1Gi", "pods", "3", "example.com/dongle", "2")}
	if got := Check(asking("a", "example.com/dongle", "2"), nil, node); got != nil {
		t.Errorf("refused: %+v", got)
	}
	got := Check(asking("a", "example.com/dongle", "1"), []*v1.Pod{asking("b", "example.com/dongle", "2")}, node)
	if got == nil || got.Reason != "OutOfexample.com/dongle" || !got.ByNode() {
		t.Errorf("there is none left, and it got %+v", got)
	}
	if got := Check(asking("a", "example.com/shared-by-all", "2"), nil, node); got != nil {
		t.Errorf("what no node has is for the scheduler to count: %+v", got)
	}
	if got := Check(asking("a", "cpu", "9"), nil, node); got == nil || got.ByNode() {
		t.Errorf("the machine's own can't be announced: %+v", got)
	}
}

func TestSupportedAndIgnored(t *testing.T) {
	field := func(path string) v1.EnvVar {
		return v1.EnvVar{Name: "A", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}}
	}
	p := newPod("web")
	s, c := &p.Spec, &p.Spec.Containers[0]
	s.HostUsers = new(false)
	s.HostAliases = []v1.HostAlias{{IP: "10.0.0.1"}}
	s.HostnameOverride = new("other")
	s.Overhead = v1.ResourceList{"cpu": resource.MustParse("1")}
	s.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{"cpu": resource.MustParse("1")}}
	s.RuntimeClassName = new("")
	s.ImagePullSecrets = []v1.LocalObjectReference{{Name: "pull"}}
	s.ServiceAccountName = "robot"
	s.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	s.Affinity = &v1.Affinity{}
	s.NodeSelector = map[string]string{"disk": "fast"}
	s.Priority = new(int32(5))
	s.SetHostnameAsFQDN = new(false)
	s.SecurityContext = &v1.PodSecurityContext{
		RunAsNonRoot:             new(true),
		SeccompProfile:           &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
		AppArmorProfile:          &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined},
		SupplementalGroupsPolicy: new(v1.SupplementalGroupsPolicyMerge),
	}
	c.SecurityContext = &v1.SecurityContext{
		ProcMount: new(v1.UnmaskedProcMount), SELinuxOptions: &v1.SELinuxOptions{},
		SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost},
	}
	c.Env = []v1.EnvVar{
		{Name: "B", Value: "c"},
		field("metadata.name"), field("metadata.namespace"), field("metadata.uid"), field("spec.nodeName"),
	}
	c.Resources.Limits = v1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi"), "hugepages-2Mi": resource.MustParse("2Mi")}
	c.Lifecycle = &v1.Lifecycle{}
	s.Volumes = []v1.Volume{
		{Name: "disk", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}},
		{Name: "own", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}},
	}
	c.VolumeDevices = []v1.VolumeDevice{{Name: "disk"}, {Name: "own"}}

	if got := Check(p, nil, Node{}); got != nil {
		t.Errorf("rejected: %+v", got)
	}
}

func TestAllFeaturesAreNamedUpToALimit(t *testing.T) {
	p := newPod("web")
	p.Spec.ResourceClaims = make([]v1.PodResourceClaim, 1)
	p.Spec.Containers = nil
	for i := range 20 {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{
			Name: fmt.Sprintf("c%d", i), VolumeDevices: make([]v1.VolumeDevice, 1),
		})
	}
	got := Check(p, nil, Node{})
	if got == nil || !strings.HasPrefix(got.Message, "not supported yet: spec.resourceClaims; spec.containers[c0]."+otherDevices+"; ") ||
		!strings.HasSuffix(got.Message, "spec.containers[c6]."+otherDevices+"; and 13 more") {
		t.Errorf("got %+v", got)
	}
}

func TestFeaturesOfEveryKindOfContainerAreRefused(t *testing.T) {
	p := newPod("web")
	devices := make([]v1.VolumeDevice, 1)
	p.Spec.InitContainers = []v1.Container{{Name: "setup", VolumeDevices: devices}}
	p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", VolumeDevices: devices}}}
	want := "not supported yet: spec.initContainers[setup]." + otherDevices + "; spec.ephemeralContainers[debug]." + otherDevices
	if got := Check(p, nil, Node{}); got == nil || got.Message != want {
		t.Errorf("got %+v, wanted %q", got, want)
	}
}

// A new version of the API may bring new fields. Each has to be thought about:
// it gets a row in the table, or its name goes here.
func TestNoFieldIsForgotten(t *testing.T) {
	fine := map[reflect.Type][]string{
		reflect.TypeFor[v1.PodSpec](): {
			// Done by berth.
			"volumes", "containers", "initContainers", "ephemeralContainers", "activeDeadlineSeconds", "readinessGates", "restartPolicy", "terminationGracePeriodSeconds", "hostNetwork", "hostPID", "hostIPC",
			"shareProcessNamespace", "os", "nodeName", "nodeSelector", "affinity", "tolerations", "priority", "runtimeClassName", "enableServiceLinks", "serviceAccountName", "dnsPolicy", "dnsConfig", "hostname", "subdomain",
			"hostAliases", "hostnameOverride", "setHostnameAsFQDN", "hostUsers", "overhead",
			// Left aside.
			"serviceAccount", "automountServiceAccountToken", "imagePullSecrets",
			"schedulerName", "priorityClassName",
			"preemptionPolicy", "topologySpreadConstraints", "schedulingGates", "schedulingGroup",
		},
		reflect.TypeFor[v1.Container](): {
			"name", "image", "command", "args", "workingDir", "ports", "imagePullPolicy", "stdin", "stdinOnce", "tty",
			"resizePolicy", "terminationMessagePath", "terminationMessagePolicy", "lifecycle", "restartPolicy", "restartPolicyRules",
			"env", "envFrom", "volumeMounts", "livenessProbe", "readinessProbe", "startupProbe",
		},
		reflect.TypeFor[v1.PodSecurityContext](): {
			"runAsUser", "runAsGroup", "runAsNonRoot", "supplementalGroups", "fsGroup", "fsGroupChangePolicy", "sysctls",
			"seLinuxOptions", "seccompProfile", "appArmorProfile", "supplementalGroupsPolicy",
			"seLinuxChangePolicy", // of volumes
		},
		reflect.TypeFor[v1.SecurityContext](): {
			"capabilities", "privileged", "runAsUser", "runAsGroup", "readOnlyRootFilesystem", "allowPrivilegeEscalation",
			"runAsNonRoot", "seLinuxOptions", "seccompProfile", "appArmorProfile", "procMount",
		},
		reflect.TypeFor[v1.EnvVarSource](): {"fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"},
	}
	prefixes := map[reflect.Type]string{
		reflect.TypeFor[v1.PodSecurityContext](): "securityContext.",
		reflect.TypeFor[v1.SecurityContext]():    "securityContext.",
		reflect.TypeFor[v1.EnvVarSource]():       "env.valueFrom.",
	}
	var podRows, containerRows []string
	for _, f := range podFeatures {
		podRows = append(podRows, f.field)
	}
	for _, f := range containerFeatures {
		containerRows = append(containerRows, f.field)
	}
	for kind, names := range fine {
		rows := containerRows
		if kind == reflect.TypeFor[v1.PodSpec]() || kind == reflect.TypeFor[v1.PodSecurityContext]() {
			rows = podRows
		}
		for i := range kind.NumField() {
			name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
			inTable := slices.ContainsFunc(rows, func(row string) bool {
				rest, ok := strings.CutPrefix(row, prefixes[kind]+name)
				return ok && (rest == "" || strings.ContainsAny(rest[:1], " .:"))
			})
			if !inTable && !slices.Contains(names, name) {
				t.Errorf("%s.%s: is it supported?", kind.Name(), name)
			}
		}
	}
}
