package inventory

import (
	"slices"
	"strings"

	"berth/internal/api"
	"berth/internal/runtime/keyring"
)

// minIDPrefix is the length from which on the beginning of an ID is not taken for a name.
const minIDPrefix = 12

// OtherNames returns the tags that an image has besides name, which is one of its names as users write it, its ID or
// the beginning of its ID.
func OtherNames(images []api.Image, name string) []string {
	full, err := keyring.FullName(name)
	if err != nil {
		full = name // an ID
	}
	for _, i := range images {
		if slices.Contains(i.Tags, full) || slices.Contains(i.Digests, full) || hasID(i.ID, name) {
			return slices.DeleteFunc(slices.Clone(i.Tags), func(tag string) bool { return tag == full })
		}
	}
	return nil
}

// hasID reports whether name is an ID, or a beginning of it that is long enough.
func hasID(id, name string) bool {
	_, hash, _ := strings.Cut(id, ":")
	return id == name || len(name) >= minIDPrefix && strings.HasPrefix(hash, name)
}
