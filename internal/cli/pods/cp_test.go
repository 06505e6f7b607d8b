package pods

import "testing"

func TestPlaces(t *testing.T) {
	for text, want := range map[string]location{
		"web:/etc":     {pod: "web", path: "/etc"},
		"x/web:/etc":   {namespace: "x", pod: "web", path: "/etc"},
		"pod/web:a":    {pod: "pod/web", path: "a"},
		"web:":         {pod: "web"},
		"file":         {path: "file"},
		"./a:b":        {path: "./a:b"},
		"/tmp/a:b":     {path: "/tmp/a:b"},
		":x":           {path: ":x"},
		"web:/a:b":     {pod: "web", path: "/a:b"},
		"../file":      {path: "../file"},
		"folder/file":  {path: "folder/file"},
		"web-node-1:.": {pod: "web-node-1", path: "."},
	} {
		if got := parseLocation(text); got != want {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
}
