package main

import "testing"

func TestTheRepositoryOfAnImage(t *testing.T) {
	for image, want := range map[string]string{
		"host/team/app:1":      "host/team/app",
		"host:5000/team/app":   "host:5000/team/app",
		"host:5000/team/app:1": "host:5000/team/app",
	} {
		if got := repositoryOf(image); got != want {
			t.Errorf("the repository of %s is %s, want %s", image, got, want)
		}
	}
}
