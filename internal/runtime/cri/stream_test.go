package cri

import (
	"testing"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestStreamsAreServedByTheRuntime(t *testing.T) {
	s := &server{answers: map[string]proto.Message{
		"Exec":        &runtimeapi.ExecResponse{Url: "http://exec"},
		"Attach":      &runtimeapi.AttachResponse{Url: "http://attach"},
		"PortForward": &runtimeapi.PortForwardResponse{Url: "http://ports"},
	}}
	c := clientOf(t, s)
	if url, err := c.ExecURL(t.Context(), "c1", []string{"sh"}, Streams{Stdin: true, Stderr: true}); url != "http://exec" || err != nil {
		t.Errorf("exec: %q, %v", url, err)
	}
	want := &runtimeapi.ExecRequest{ContainerId: "c1", Cmd: []string{"sh"}, Stdin: true, Stderr: true}
	if got := request[*runtimeapi.ExecRequest](t, s, "Exec"); !proto.Equal(got, want) {
		t.Errorf("asked for %v", got)
	}
	if url, err := c.AttachURL(t.Context(), "c1", Streams{Stdout: true}); url != "http://attach" || err != nil {
		t.Errorf("attach: %q, %v", url, err)
	}
	if got := request[*runtimeapi.AttachRequest](t, s, "Attach"); !proto.Equal(got, &runtimeapi.AttachRequest{ContainerId: "c1", Stdout: true}) {
		t.Errorf("asked for %v", got)
	}
	if url, err := c.PortForwardURL(t.Context(), "s1", 80, 81); url != "http://ports" || err != nil {
		t.Errorf("ports: %q, %v", url, err)
	}
	if got := request[*runtimeapi.PortForwardRequest](t, s, "PortForward"); !proto.Equal(got, &runtimeapi.PortForwardRequest{PodSandboxId: "s1", Port: []int32{80, 81}}) {
		t.Errorf("asked for %v", got)
	}
}

func TestATerminalHasOneOutput(t *testing.T) {
	s := &server{answers: map[string]proto.Message{"Exec": &runtimeapi.ExecResponse{}, "Attach": &runtimeapi.AttachResponse{}}}
	c, all := clientOf(t, s), Streams{Stdin: true, Stdout: true, Stderr: true, TTY: true}
	if _, err := c.ExecURL(t.Context(), "c1", []string{"sh"}, all); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AttachURL(t.Context(), "c1", all); err != nil {
		t.Fatal(err)
	}
	if r := request[*runtimeapi.ExecRequest](t, s, "Exec"); r.Stderr || !r.Tty || !r.Stdout {
		t.Errorf("exec asked for %v", r)
	}
	if r := request[*runtimeapi.AttachRequest](t, s, "Attach"); r.Stderr || !r.Tty || !r.Stdout {
		t.Errorf("attach asked for %v", r)
	}
}
