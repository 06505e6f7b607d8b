package app

import (
	v1 "k8s.io/api/core/v1"

	"berth/internal/lib/pod"
)

// standalone is the upstream of a machine that has no API server.
type standalone struct{}

func (standalone) Publish(*v1.Pod, v1.PodStatus) {}
func (standalone) Release(*v1.Pod)               {}
func (standalone) Mirror(*v1.Pod)                {}
func (standalone) Unmirror(*v1.Pod)              {}
func (standalone) Forget(pod.UID)                {}
