package cri

import (
	"context"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/runtime/keyring"
)

func amount(n uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: n} }

func TestImagesAreListedInOneOrder(t *testing.T) {
	s := &server{answers: map[string]proto.Message{"ListImages": &runtimeapi.ListImagesResponse{Images: []*runtimeapi.Image{
		{
			Id: "sha256:2", RepoTags: []string{"localhost/b:1", "localhost/a:1"}, RepoDigests: []string{"localhost/a@sha256:9", "localhost/a@sha256:8"},
			Size: 7, Pinned: true, Uid: &runtimeapi.Int64Value{Value: 0},
		},
		{Id: "sha256:1", Username: "www"},
	}}}}
	got, err := clientOf(t, s).Images(t.Context())
	want := []Image{
		{ID: "sha256:1", User: "www"},
		{
			ID: "sha256:2", Tags: []string{"localhost/a:1", "localhost/b:1"}, Digests: []string{"localhost/a@sha256:8", "localhost/a@sha256:9"},
			Size: 7, Pinned: true, UID: new(int64(0)),
		},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestRemoveImageNamesIt(t *testing.T) {
	s := &server{answers: map[string]proto.Message{"RemoveImage": &runtimeapi.RemoveImageResponse{}}}
	if err := clientOf(t, s).RemoveImage(t.Context(), "localhost/a:1"); err != nil {
		t.Fatal(err)
	}
	if got := request[*runtimeapi.RemoveImageRequest](t, s, "RemoveImage").GetImage().GetImage(); got != "localhost/a:1" {
		t.Errorf("removed %q", got)
	}
}

func TestFilesystemsReturnsMeasuredUsage(t *testing.T) {
	s := &server{answers: map[string]proto.Message{"ImageFsInfo": &runtimeapi.ImageFsInfoResponse{
		ImageFilesystems: []*runtimeapi.FilesystemUsage{
			{Timestamp: moment(1), FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/images"}, UsedBytes: amount(5), InodesUsed: amount(0)},
		},
		ContainerFilesystems: []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/layers"}}},
	}}}
	got, err := clientOf(t, s).Filesystems(t.Context())
	want := Filesystems{
		Images:     []Filesystem{{At: time.Unix(0, moment(1)), Mountpoint: "/images", Used: new(uint64(5)), Inodes: new(uint64(0))}},
		Containers: []Filesystem{{Mountpoint: "/layers"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func pullImage(ctx context.Context, c *Client, image string) error {
	_, err := c.PullImage(ctx, image, keyring.Credential{})
	return err
}

func TestAPullShowsItsCredentials(t *testing.T) {
	s := &server{answers: map[string]proto.Message{"PullImage": &runtimeapi.PullImageResponse{ImageRef: "sha256:1"}}}
	c := clientOf(t, s)
	shown := func(show keyring.Credential) *runtimeapi.AuthConfig {
		t.Helper()
		if ref, err := c.PullImage(t.Context(), "localhost/app:1", show); ref != "sha256:1" || err != nil {
			t.Fatalf("got %q, %v", ref, err)
		}
		return request[*runtimeapi.PullImageRequest](t, s, "PullImage").GetAuth()
	}
	if a := shown(keyring.Credential{Username: "me", Password: "x", IdentityToken: "i"}); a.GetUsername() != "me" || a.GetPassword() != "x" || a.GetIdentityToken() != "i" {
		t.Errorf("got %v", a)
	}
	if a := shown(keyring.Credential{}); a != nil {
		t.Errorf("got %v", a)
	}
}

func TestAPullThatTheRuntimeGivesUp(t *testing.T) {
	for code, want := range map[codes.Code]bool{codes.Canceled: true, codes.Unavailable: false, codes.NotFound: false} {
		s := &server{fails: map[string]error{"PullImage": status.Error(code, "no")}}
		_, err := clientOf(t, s).PullImage(t.Context(), "localhost/app:1", keyring.Credential{})
		if err == nil || GaveUp(err) != want {
			t.Errorf("%s: got %v, %v", code, GaveUp(err), err)
		}
	}
}
