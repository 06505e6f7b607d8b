package app

import (
	"slices"
	"testing"

	configfeatures "berth/internal/config/features"
)

func TestTheNodeDeclaresItsFeatures(t *testing.T) {
	for name, test := range map[string]struct {
		gates configfeatures.Gates
		want  []string
	}{
		"as they are":      {nil, []string{"ExtendWebSocketsToKubelet", "RestartAllContainersOnContainerExits"}},
		"one is off":       {configfeatures.Gates{"ExtendWebSocketsToKubelet": false}, []string{"RestartAllContainersOnContainerExits"}},
		"none is declared": {configfeatures.Gates{"NodeDeclaredFeatures": false}, nil},
	} {
		if got := declaredFeatures(test.gates); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
