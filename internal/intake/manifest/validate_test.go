package manifest

import (
	"reflect"
	"strings"
	"testing"
)

// Each case is a spec (or metadata) that differs from a good one in one place,
// and what is said about it.
func TestValidation(t *testing.T) {
	const app = "containers: [{name: app, image: i}]"
	for name, c := range map[string]struct {
		meta string
		spec string
		want []string
	}{
		"good":            {"name: web", app, nil},
		"no name":         {"labels: {}", app, []string{"metadata.name: Required value"}},
		"name of a path":  {"name: ../web", app, []string{`metadata.name: Invalid value: "../web": a lowercase RFC 1123 subdomain`}},
		"namespace":       {"{name: web, namespace: a.b}", app, []string{`metadata.namespace: Invalid value: "a.b": must not contain dots`}},
		"uid of a path":   {"{name: web, uid: ../x}", app, []string{`metadata.uid: Invalid value: "../x": must consist of`}},
		"uid of a dot":    {"{name: web, uid: '..'}", app, []string{`metadata.uid: Invalid value: "..": must consist of`}},
		"uid too long":    {"{name: web, uid: " + strings.Repeat("a", 64) + "}", app, []string{`metadata.uid: Invalid value: "aaa`}},
		"uid":             {"{name: web, uid: A_b.c-1}", app, nil},
		"label":           {"{name: web, labels: {a: b/c}}", app, []string{`metadata.labels: Invalid value: "b/c": a valid label`}},
		"annotation":      {"{name: web, annotations: {a b: c}}", app, []string{`metadata.annotations: Invalid value: "a b": name part must`}},
		"being deleted":   {"{name: web, deletionTimestamp: 2024-01-01T00:00:00Z}", app, []string{"metadata.deletionTimestamp: Forbidden: "}},
		"no containers":   {"name: web", "containers: []", []string{"spec.containers: Required value: a pod needs"}},
		"ephemeral":       {"name: web", app + "\nephemeralContainers: [{name: e, image: i}]", []string{"spec.ephemeralContainers: Forbidden: "}},
		"restart policy":  {"name: web", app + "\nrestartPolicy: Sometimes", []string{`spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"`}},
		"dns policy":      {"name: web", app + "\ndnsPolicy: X", []string{`spec.dnsPolicy: Unsupported value: "X"`}},
		"dns none":        {"name: web", app + "\ndnsPolicy: None", []string{"spec.dnsConfig.nameservers: Required value"}},
		"dns lines":       {"name: web", app + "\ndnsConfig: {nameservers: [x], searches: [\"a\\nb\", a_b.c.], options: [{name: \"a\\nb\"}]}", []string{"spec.dnsConfig.nameservers[0]: Invalid", "spec.dnsConfig.searches[0]: Invalid", "spec.dnsConfig.options[0].name: Invalid"}},
		"grace":           {"name: web", app + "\nterminationGracePeriodSeconds: -1", []string{"spec.terminationGracePeriodSeconds: Invalid value: -1: must be greater than or equal to 0"}},
		"deadline":        {"name: web", app + "\nactiveDeadlineSeconds: 0", []string{"spec.activeDeadlineSeconds: Invalid value: 0: must be greater than 0"}},
		"hostname":        {"name: web", app + "\nhostname: a.b\nsubdomain: A", []string{`spec.hostname: Invalid value: "a.b"`, `spec.subdomain: Invalid value: "A"`}},
		"host aliases":    {"name: web", app + "\nhostAliases: [{ip: x, hostnames: ['a b']}]", []string{"spec.hostAliases[0].ip: Invalid", "spec.hostAliases[0].hostnames[0]: Invalid"}},
		"pull secret":     {"name: web", app + "\nimagePullSecrets: [{name: ../x}]", []string{"spec.imagePullSecrets[0].name: Invalid"}},
		"runtime class":   {"name: web", app + "\nruntimeClassName: a/b", []string{"spec.runtimeClassName: Invalid"}},
		"os":              {"name: web", app + "\nos: {name: plan9}", []string{"spec.os.name: Unsupported value"}},
		"toleration":      {"name: web", app + "\ntolerations: [{operator: Is, key: a}, {key: '', operator: Equal}, {operator: Exists, value: x}, {key: a, effect: Never}, {key: a, tolerationSeconds: 1}]", []string{"spec.tolerations[0].operator: Unsupported", "spec.tolerations[1].operator: Invalid", "spec.tolerations[2].value: Invalid", "spec.tolerations[3].effect: Unsupported", "spec.tolerations[4].effect: Invalid"}},
		"pod resources":   {"name: web", app + "\nresources: {requests: {cpu: 2}, limits: {cpu: 1}}", []string{"spec.resources.requests[cpu]: Invalid value: \"2\": must be less than or equal to cpu limit of 1"}},
		"pod security":    {"name: web", app + "\nsecurityContext: {runAsUser: -1, fsGroup: -1, supplementalGroups: [-1], sysctls: [{name: ../x, value: a}], seccompProfile: {type: Localhost, localhostProfile: ../x}, fsGroupChangePolicy: X, supplementalGroupsPolicy: Y}", []string{"spec.securityContext.runAsUser: Invalid", "spec.securityContext.fsGroup: Invalid", "spec.securityContext.supplementalGroups[0]: Invalid", "spec.securityContext.supplementalGroupsPolicy: Unsupported", "spec.securityContext.fsGroupChangePolicy: Unsupported", "spec.securityContext.sysctls[0].name: Invalid", "spec.securityContext.seccompProfile.localhostProfile: Invalid"}},
		"namespaces":      {"name: web", app + "\nhostPID: true\nshareProcessNamespace: true\nhostUsers: false", []string{"spec.hostPID: Forbidden", "spec.shareProcessNamespace: Invalid"}},
		"same names":      {"name: web", "initContainers: [{name: app, image: i}]\n" + app, []string{`spec.containers[0].name: Duplicate value: "app"`}},
		"container":       {"name: web", "containers: [{name: A, image: ' i', imagePullPolicy: X, terminationMessagePolicy: Y}]", []string{"spec.containers[0].name: Invalid", "spec.containers[0].image: Invalid value: \" i\": must not have leading", "spec.containers[0].imagePullPolicy: Unsupported", "spec.containers[0].terminationMessagePolicy: Unsupported"}},
		"no image":        {"name: web", "containers: [{name: a}]", []string{"spec.containers[0].image: Required value"}},
		"ports":           {"name: web", "containers: [{name: a, image: i, ports: [{containerPort: 0}, {containerPort: 70000}, {containerPort: 1, name: p, protocol: X}, {containerPort: 2, name: p, hostIP: x}, {containerPort: 3, hostPort: 80}, {containerPort: 4, hostPort: 80}]}]", []string{"spec.containers[0].ports[0].containerPort: Required", "spec.containers[0].ports[1].containerPort: Invalid", "spec.containers[0].ports[2].protocol: Unsupported", "spec.containers[0].ports[3].name: Duplicate", "spec.containers[0].ports[3].hostIP: Invalid", "spec.containers[0].ports[5].hostPort: Duplicate value: \"TCP//80\""}},
		"host network":    {"name: web", "hostNetwork: true\ncontainers: [{name: a, image: i, ports: [{containerPort: 80, hostPort: 81}]}]", []string{"spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort`"}},
		"init ports":      {"name: web", "initContainers: [{name: a, image: i, ports: [{containerPort: 1, hostPort: 80}]}]\ncontainers: [{name: b, image: i, ports: [{containerPort: 1, hostPort: 80}]}]", nil},
		"sidecar ports":   {"name: web", "initContainers: [{name: a, image: i, restartPolicy: Always, ports: [{containerPort: 1, hostPort: 80}]}]\ncontainers: [{name: b, image: i, ports: [{containerPort: 1, hostPort: 80}]}]", []string{"spec.containers[0].ports[0].hostPort: Duplicate"}},
		"env":             {"name: web", "containers: [{name: a, image: i, env: [{name: 'a=b'}, {name: ''}, {name: A, value: x, valueFrom: {}}, {name: B, valueFrom: {secretKeyRef: {name: ../x, key: a/b}}}, {name: C, valueFrom: {fileKeyRef: {volumeName: v, path: ../x, key: K}}}]}]", []string{"spec.containers[0].env[0].name: Invalid", "spec.containers[0].env[1].name: Required", "spec.containers[0].env[2].valueFrom: Forbidden", "spec.containers[0].env[2].valueFrom: Required", "spec.containers[0].env[3].valueFrom.secretKeyRef.name: Invalid", "spec.containers[0].env[3].valueFrom.secretKeyRef.key: Invalid", "spec.containers[0].env[4].valueFrom.fileKeyRef.volumeName: Not found", "spec.containers[0].env[4].valueFrom.fileKeyRef.path: Invalid"}},
		"env from":        {"name: web", "containers: [{name: a, image: i, envFrom: [{}, {secretRef: {name: a}, configMapRef: {name: ''}}]}]", []string{"spec.containers[0].envFrom[0]: Required", "spec.containers[0].envFrom[1].configMapRef.name: Required", "spec.containers[0].envFrom[1].secretRef: Forbidden"}},
		"mounts":          {"name: web", "volumes: [{name: v}, {name: v}, {name: A}]\ncontainers: [{name: a, image: i, volumeMounts: [{name: x, mountPath: /a}, {name: v, mountPath: ''}, {name: v, mountPath: /a}, {name: v, mountPath: '/b:c', subPath: ../x}]}]", []string{"spec.volumes[1].name: Duplicate", "spec.volumes[2].name: Invalid", "spec.containers[0].volumeMounts[0].name: Not found", "spec.containers[0].volumeMounts[1].mountPath: Required", "spec.containers[0].volumeMounts[2].mountPath: Duplicate", "spec.containers[0].volumeMounts[3].mountPath: Invalid", "spec.containers[0].volumeMounts[3].subPath: Invalid"}},
		"volumes":         {"name: web", app + "\nvolumes:\n- {name: a, emptyDir: {medium: X, sizeLimit: -1}}\n- {name: b, emptyDir: {}, hostPath: {path: /a}}\n- {name: c, hostPath: {path: /a/../b, type: X}}\n- {name: d, secret: {secretName: a/b, defaultMode: 01000, items: [{key: a/b, path: /x}]}}\n- {name: e, configMap: {}}", []string{"spec.volumes[0].emptyDir.sizeLimit: Invalid", "spec.volumes[0].emptyDir.medium: Unsupported", "spec.volumes[1].emptyDir: Forbidden: may not specify more than one", "spec.volumes[2].hostPath.path: Invalid", "spec.volumes[2].hostPath.type: Unsupported", "spec.volumes[3].secret.secretName: Invalid", "spec.volumes[3].secret.defaultMode: Invalid", "spec.volumes[3].secret.items[0].key: Invalid", "spec.volumes[3].secret.items[0].path: Invalid", "spec.volumes[4].configMap.name: Required"}},
		"resources":       {"name: web", "containers: [{name: a, image: i, resources: {limits: {memory: -1, gpu: 1, a.b/c: 2}, requests: {a.b/c: 1, hugepages-2Mi: 1}}}]", []string{"spec.containers[0].resources.limits[gpu]: Invalid", "spec.containers[0].resources.limits[memory]: Invalid", "spec.containers[0].resources.requests[gpu]: Invalid", "spec.containers[0].resources.requests[memory]: Invalid", "spec.containers[0].resources.requests[a.b/c]: Invalid value: \"1\": must be equal", "spec.containers[0].resources.requests[hugepages-2Mi]: Required"}},
		"probes":          {"name: web", "containers: [{name: a, image: i, livenessProbe: {successThreshold: 2, exec: {command: []}}, readinessProbe: {periodSeconds: -1, tcpSocket: {port: 0}, httpGet: {port: a_b, scheme: X}, terminationGracePeriodSeconds: 1}, startupProbe: {}}]", []string{"spec.containers[0].livenessProbe.exec.command: Required", "spec.containers[0].startupProbe: Required", "spec.containers[0].readinessProbe.httpGet.port: Invalid", "spec.containers[0].readinessProbe.httpGet.scheme: Unsupported", "spec.containers[0].readinessProbe.tcpSocket.port: Invalid", "spec.containers[0].readinessProbe.tcpSocket: Forbidden", "spec.containers[0].readinessProbe.periodSeconds: Invalid", "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1", "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid"}},
		"lifecycle":       {"name: web", "containers: [{name: a, image: i, lifecycle: {postStart: {}, preStop: {sleep: {seconds: 31}}}}]", []string{"spec.containers[0].lifecycle.postStart: Required", "spec.containers[0].lifecycle.preStop.sleep.seconds: Invalid"}},
		"plain init":      {"name: web", "initContainers: [{name: b, image: i, readinessProbe: {exec: {command: [x]}}, lifecycle: {}}]\n" + app, []string{"spec.initContainers[0].lifecycle: Forbidden", "spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always"}},
		"sidecar":         {"name: web", "initContainers: [{name: b, image: i, restartPolicy: Always, readinessProbe: {exec: {command: [x]}}}]\n" + app, nil},
		"restart rules":   {"name: web", "containers: [{name: a, image: i, restartPolicy: X}, {name: b, image: i, restartPolicyRules: [{action: Y}, {action: Restart, exitCodes: {operator: Z}}]}]", []string{"spec.containers[0].restartPolicy: Unsupported", "spec.containers[1].restartPolicy: Required", "spec.containers[1].restartPolicyRules[0].action: Unsupported", "spec.containers[1].restartPolicyRules[0].exitCodes: Required", "spec.containers[1].restartPolicyRules[1].exitCodes.operator: Unsupported"}},
		"security":        {"name: web", "containers: [{name: a, image: i, securityContext: {runAsUser: -1, privileged: true, allowPrivilegeEscalation: false, procMount: X, capabilities: {add: [CAP_SYS_ADMIN]}, appArmorProfile: {type: Localhost}}}]", []string{"spec.containers[0].securityContext.runAsUser: Invalid", "spec.containers[0].securityContext.procMount: Unsupported", "spec.containers[0].securityContext: Invalid", "spec.containers[0].securityContext: Invalid", "spec.containers[0].securityContext.appArmorProfile.localhostProfile: Required"}},
		"projected paths": {"name: web", app + "\nvolumes: [{name: p, projected: {sources: [{serviceAccountToken: {path: /a}}, {configMap: {name: c, items: [{key: k, path: ..x}]}}, {downwardAPI: {items: [{path: a}]}}]}}]", []string{"spec.volumes[0].projected.sources[0].serviceAccountToken.path: Invalid", "spec.volumes[0].projected.sources[1].configMap.items[0].path: Invalid", "spec.volumes[0].projected.sources[2].downwardAPI.items[0]: Required"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := "apiVersion: v1\nkind: Pod\nmetadata:\n" + indent(c.meta) + "spec:\n" + indent(c.spec)
			have := formatProblems(Parse([]byte(text)).Problems)
			var messages []string
			for _, h := range have {
				_, rest, _ := strings.Cut(h, " ")
				_, rest, _ = strings.Cut(rest, " ")
				messages = append(messages, rest)
			}
			if len(messages) != len(c.want) {
				t.Fatalf("have %q\nwant %q", messages, c.want)
			}
			for i := range c.want {
				if !strings.HasPrefix(messages[i], c.want[i]) {
					t.Errorf("%d: have %q\nwant %q", i, messages[i], c.want[i])
				}
			}
		})
	}
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(text, "\n", "\n  ") + "\n"
}

func TestProblemsOfValidationHaveTheirLine(t *testing.T) {
	r := Parse([]byte(small + "    env:\n    - name: A\n    - name: a=b\n      value: x\n  hostname: a.b\n"))
	var lines []int
	for _, p := range r.Problems {
		lines = append(lines, p.Line)
	}
	if want := []int{11, 13}; !reflect.DeepEqual(lines, want) {
		t.Errorf("have %q, want lines %v", formatProblems(r.Problems), want)
	}
}
