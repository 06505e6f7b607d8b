package manifest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
)

// everyKind has one object of each kind, among pods, in all ways to write a list.
const everyKind = `apiVersion: v1
kind: ConfigMap
metadata: {name: settings, resourceVersion: "7", annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}", mine: "yes"}}
data: {colour: red}
binaryData: {b: AAH/}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Secret, metadata: {name: key, namespace: shop}, data: {a: aGk=, b: aGk=}, stringData: {b: ho}, immutable: true}
- {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: i}]}}
- {apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: gvisor}, handler: runsc, overhead: {podFixed: {cpu: 100m}}}
---
apiVersion: v1
kind: PersistentVolumeList
items:
- metadata: {name: disk}
  spec:
    capacity: {storage: 1Gi}
    accessModes: [ReadWriteOnce]
    hostPath: {path: /data}
    claimRef: {name: data, uid: x, kind: PersistentVolumeClaim}
  status: {phase: Bound}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, storageClassName: ""}
status: {phase: Bound}
`

func TestObjectsComeWithTheirDefaults(t *testing.T) {
	r := Parse([]byte(everyKind))
	if len(r.Problems) > 0 {
		t.Fatalf("unexpected: %q", formatProblems(r.Problems))
	}
	var have []string
	for _, o := range r.Objects {
		have = append(have, fmt.Sprintf("%s %s/%s", o.GetObjectKind().GroupVersionKind().Kind, o.GetNamespace(), o.GetName()))
		if o.GetResourceVersion() != "" {
			t.Errorf("%s has a version", o.GetName())
		}
	}
	want := []string{"ConfigMap default/settings", "Secret shop/key", "RuntimeClass /gvisor", "PersistentVolume /disk", "PersistentVolumeClaim default/data"}
	if !reflect.DeepEqual(have, want) || len(r.Pods) != 1 {
		t.Fatalf("have %q and %d pods", have, len(r.Pods))
	}
	for _, o := range r.Objects {
		good := true
		switch o := o.(type) {
		case *v1.ConfigMap:
			good = o.Data["colour"] == "red" && len(o.BinaryData["b"]) == 3 && reflect.DeepEqual(o.Annotations, map[string]string{"mine": "yes"})
		case *v1.Secret:
			good = string(o.Data["a"]) == "hi" && string(o.Data["b"]) == "ho" && o.StringData == nil && o.Type == v1.SecretTypeOpaque && *o.Immutable
		case *nodev1.RuntimeClass:
			good = o.Handler == "runsc" && o.Overhead.PodFixed.Cpu().MilliValue() == 100
		case *v1.PersistentVolume:
			good = *o.Spec.HostPath.Type == "" && *o.Spec.VolumeMode == v1.PersistentVolumeFilesystem && o.Spec.ClaimRef.Namespace == "default" &&
				o.Spec.ClaimRef.UID == "" && o.Status.Phase == ""
		case *v1.PersistentVolumeClaim:
			good = *o.Spec.VolumeMode == v1.PersistentVolumeFilesystem && o.Status.Phase == ""
		}
		if !good {
			t.Errorf("have %+v", o)
		}
	}
}

func TestObjectsAreChecked(t *testing.T) {
	const class, volume, claim = "node.k8s.io/v1 RuntimeClass", "v1 PersistentVolume", "v1 PersistentVolumeClaim"
	const disk = "spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], "
	const wants = "spec: {resources: {requests: {storage: 1Gi}}, accessModes: [ReadWriteOnce], "
	big := strings.Repeat("x", v1.MaxSecretSize)
	for name, c := range map[string]struct {
		kind, meta, rest string
		want             []string // how the problems begin, line by line
	}{
		"a field that is none":  {"v1 ConfigMap", "name: a", "dta: {}", []string{"4 default/a dta: unknown field"}},
		"a name":                {"v1 ConfigMap", "name: a/b", "data: {}", []string{"3 / metadata.name: Invalid"}},
		"a namespace":           {"v1 Secret", "name: a, namespace: ..", "data: {}", []string{"3 / metadata.namespace: Invalid"}},
		"a key":                 {"v1 ConfigMap", "name: a", "data: {../x: y}\nbinaryData: {\"a/b\": AAAA, \"..\": AAAA}", []string{"4 default/a data[../x]: Invalid", "4 default/a data[../x]: Invalid", "5 default/a binaryData[..]: Invalid", "5 default/a binaryData[a/b]: Invalid"}},
		"a key twice":           {"v1 ConfigMap", "name: a", "data: {x: y}\nbinaryData: {x: AAAA}", []string{"4 default/a data[x]: Invalid"}},
		"no text":               {"v1 ConfigMap", "name: a", "data:\n  x: 5", []string{"5 default/a data[x]: must be text, but is the number 5: put it in quotes"}},
		"too large":             {"v1 ConfigMap", "name: a", "data: {x: " + big + ", y: z}", []string{"4 default/a data: Too long"}},
		"a secret too large":    {"v1 Secret", "name: a", "stringData: {x: " + big + ", y: z}", []string{"1 default/a data: Too long"}},
		"no base64":             {"v1 Secret", "name: a", "data:\n  x: hush-hush", []string{"5 default/a data[x]: must be text in base64: illegal"}},
		"a secret number":       {"v1 Secret", "name: a", "stringData:\n  pin: 4711", []string{"5 default/a stringData[pin]: must be text, but is something else: put it in quotes"}},
		"a secret key":          {"v1 Secret", "name: a", "stringData: {a/b: x}", []string{"4 default/a stringData[a/b]: Invalid"}},
		"a login":               {"v1 Secret", "name: a", "type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: hush}", []string{`5 default/a stringData[.dockerconfigjson]: Invalid value: "<hidden>": must be JSON`}},
		"a certificate":         {"v1 Secret", "name: a", "type: kubernetes.io/tls\nstringData: {tls.crt: x}", []string{"1 default/a data[tls.key]: Required"}},
		"no handler":            {class, "name: a", "scheduling: {}", []string{"1 /a handler: Required"}},
		"a handler":             {class, "name: a", "handler: Run/SC", []string{"4 /a handler: Invalid"}},
		"a class of a place":    {class, "name: a, namespace: b", "handler: a", []string{"3 /a metadata.namespace: Forbidden"}},
		"overhead":              {class, "name: a", "handler: a\noverhead: {podFixed: {cpu: -1}}", []string{"5 /a overhead.podFixed[cpu]: Invalid"}},
		"an empty volume":       {volume, "name: a", "spec: {}", []string{"4 /a spec.capacity[storage]: Required", "4 /a spec.accessModes: Required", "4 /a spec: Required value: must specify one of hostPath, local"}},
		"a volume of a cluster": {volume, "name: a", disk + "\n  nfs: {server: a, path: /}}", []string{"5 /a spec.nfs: Forbidden: such a volume is for a cluster"}},
		"two in one":            {volume, "name: a", disk + "hostPath: {path: /a}, local: {path: /a}}", []string{"4 /a spec.local: Forbidden"}},
		"paths that escape":     {volume, "name: a", disk + "local: {path: a/../b}}", []string{"4 /a spec.local.path: Invalid"}},
		"a path up":             {volume, "name: a", disk + "hostPath: {path: /a/../b}}", []string{"4 /a spec.hostPath.path: Invalid"}},
		"words":                 {volume, "name: a", "spec: {capacity: {storage: -1}, accessModes: [Some], volumeMode: X, persistentVolumeReclaimPolicy: Y, local: {path: /a}, claimRef: {name: A}}", []string{"4 /a spec.capacity[storage]: Invalid", "4 /a spec.accessModes[0]: Unsupported", "4 /a spec.volumeMode: Unsupported", "4 /a spec.persistentVolumeReclaimPolicy: Unsupported", "4 /a spec.claimRef.name: Invalid"}},
		"an empty claim":        {claim, "name: a", "spec: {}", []string{"4 default/a spec.resources.requests[storage]: Required", "4 default/a spec.accessModes: Required"}},
		"a claim":               {claim, "name: a", wants + "volumeName: A, storageClassName: A, dataSource: {kind: A, name: b}, selector: {matchExpressions: [{key: a, operator: X}]}}", []string{"4 default/a spec.storageClassName: Invalid", "4 default/a spec.volumeName: Invalid", "4 default/a spec.selector.matchExpressions[0].operator: Invalid", "4 default/a spec.dataSource: Forbidden"}},
		"one pod and others":    {claim, "name: a", "spec: {resources: {requests: {storage: 1}}, accessModes: [ReadWriteOncePod, ReadWriteOnce]}", []string{"4 default/a spec.accessModes: Forbidden"}},
		"a good volume":         {volume, "name: a", disk + "local: {path: /a}, storageClassName: fast}", nil},
		"a good claim":          {claim, "name: a", wants + "selector: {matchLabels: {a: b}}}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			version, kind, _ := strings.Cut(c.kind, " ")
			r := Parse([]byte("apiVersion: " + version + "\nkind: " + kind + "\nmetadata: {" + c.meta + "}\n" + c.rest + "\n"))
			have := formatProblems(r.Problems)
			if len(have) != len(c.want) || len(have) == 0 && len(r.Objects) != 1 {
				t.Fatalf("have %q\nwant %q", have, c.want)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(have[i], want) || r.Problems[i].Kind != kind {
					t.Errorf("%d: have %s %q\nwant %q", i, r.Problems[i].Kind, have[i], want)
				}
			}
		})
	}
}

func TestMistakesInASecretDoNotShowIt(t *testing.T) {
	const head = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n"
	for _, rest := range []string{
		"data: hush", "data: [hush]", "data: {a: hush!}", "data: {a: {b: hush}}", "data: {a: !x hush}", "stringData: hush", "stringData: {a: 10473562}",
		"stringData: {a: !!binary hush}", "stringData: {a: !!float hush}", "type: [hush]", "immutable: hush", "type: {a: hush}",
		"metadata: {creationTimestamp: hush}", "type: kubernetes.io/dockercfg\nstringData: {.dockercfg: hush}",
	} {
		r := Parse([]byte(head + rest + "\n"))
		if len(r.Problems) == 0 {
			t.Errorf("%s was taken", rest)
		}
		for _, text := range formatProblems(r.Problems) {
			if strings.Contains(text, "hush") || strings.Contains(text, "10473562") {
				t.Errorf("it is reported: %s", text)
			}
		}
	}
}
