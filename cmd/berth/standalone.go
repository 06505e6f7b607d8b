package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// standalone is the upstream of a machine that has no API server.
type standalone struct{}

func (standalone) Publish(*v1.Pod, v1.PodStatus)         {}
func (standalone) Release(*v1.Pod)                       {}
func (standalone) Mirror(context.Context, *v1.Pod) error { return nil }
