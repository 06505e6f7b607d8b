package pods

import (
	"bytes"
	"io"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"berth/internal/cli/clitest"
)

func TestStreamCommandsThatAreWrong(t *testing.T) {
	dir := clitest.NewRootDir(t)
	for args, want := range map[string]string{
		"exec":                                "give the name of one pod (see",
		"exec -- ls":                          "give the name of one pod (see",
		"exec web":                            "give a command after --, as in 'berth exec web -- ls'",
		"exec web ls":                         "put -- between the pod and the command",
		"exec web --client-key x -- ls":       "--client-key is for --server, which is not given",
		"exec web --server x -- ls":           `the server is "x": give it as in https://node-1:10250`,
		"exec web -n a/b -- ls":               `"a/b" is not the name of a namespace`,
		"exec ../x -- ls":                     `"../x" is not the name of a pod`,
		"exec web -- ls":                      "berth is not running on",
		"attach":                              "give the name of one pod",
		"attach a b":                          "give the name of one pod",
		"port-forward web":                    "give the name of one pod, and a port or more",
		"port-forward web 0":                  `"0" is not a port`,
		"port-forward web 0:0":                `"0:0" is not a port`,
		"port-forward web :":                  `":" is not a port`,
		"port-forward web 80:":                `"80:" is not a port`,
		"port-forward web 8080:80 1:2:3":      `"1:2:3" is not a port`,
		"port-forward web 80 --address host1": `--address is "host1": give IP addresses`,
		"port-forward web :80":                "berth is not running on",
		"cp a":                                "give what to copy, and where to",
		"cp a b":                              "neither is in a pod",
		"cp a:/b c:/d":                        "both are in pods",
		"cp a: b":                             `"a:" has no path`,
		"cp x/a:/b c -n y":                    "--namespace and the namespace before the pod differ",
		"debug":                               "give the name of one pod",
		"debug web":                           "say what to run: give --image",
		"debug web sh":                        "put -- between the pod and the command",
		"debug web --image x -c A_B":          `"A_B" is not the name of a container`,
	} {
		var stderr bytes.Buffer
		all := append([]string{"--root-dir", dir}, strings.Fields(args)...)
		if code := clitest.Execute(t.Context(), root, io.Discard, &stderr, all...); code != 1 || !strings.HasPrefix(stderr.String(), "error: "+want) {
			t.Errorf("berth %s: got %d, %s, want %s", args, code, &stderr, want)
		}
	}
}

func TestStreamCompletion(t *testing.T) {
	a := clitest.StartAgent(t, root)
	web := clitest.RunningPod("x", "web", "app")
	web.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debugger"}}}
	a.Set(nil, web)
	for args, want := range map[string]string{
		"exec ":                   "web-node-1",
		"exec web -c ":            "app debugger",
		"attach w":                "web-node-1",
		"port-forward w":          "web-node-1",
		"port-forward web ":       "",
		"debug web --target ":     "app debugger",
		"cp w":                    "web-node-1:",
		"cp ./file w":             "web-node-1:",
		"cp ./file web-node-1:x ": "",
	} {
		all := append([]string{"__complete", "--root-dir", a.RootDir}, strings.Split(args, " ")...)
		var out bytes.Buffer
		code := clitest.Execute(t.Context(), root, &out, io.Discard, all...)
		words, _, _ := strings.Cut(out.String(), "\n:")
		if strings.HasPrefix(out.String(), ":") {
			words = ""
		}
		if got := strings.Join(strings.Fields(words), " "); code != 0 || got != want {
			t.Errorf("%s: got code %d, %q, want %q", args, code, got, want)
		}
	}
}
