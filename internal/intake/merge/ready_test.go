package merge

// Ready reports whether a source had its first Set.
func (m *Merger) Ready(source string) bool {
	src, ok := m.sources[source]
	return ok && src.ready
}

// ReadySources returns the names of the sources that had their first Set, sorted.
func (m *Merger) ReadySources() []string {
	var names []string
	for _, src := range m.inOrder() {
		if src.ready {
			names = append(names, src.name)
		}
	}
	return names
}
