package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth/internal/intake/manifest"
	"berth/internal/lib/atomicfile"
	"berth/internal/lib/pod"
	"berth/internal/lib/statefile"
)

// stateVersion is raised when an older berth would misread the state file. A new field
// is no reason for that.
const stateVersion = 1

// lastGood keeps the last good pods and other objects of a source, by origin, in a state
// file. It is the only writer of that file.
type lastGood struct {
	path  string // empty to remember nothing
	in    intake
	wrote []byte // the content of the file
}

// memory is the decoded content of a state file.
type memory struct {
	mounted  bool // the folder was a mount point
	accepted map[string][]acceptedObject
	refused  map[string][]pod.Refusal // why this version of berth would not take in some of it
}

// stateFile is the form of a memory on disk. The objects are manifests.
//
// Versions of berth come and go in both directions. So each reads what it knows of a file,
// whatever its version is, and one entry that it can't use costs that entry only. Digests
// stand before the objects, since the end of a file is what gets lost first.
type stateFile struct {
	Version int                          `json:"version"`
	Node    string                       `json:"node"`
	Mounted bool                         `json:"mounted,omitempty"`
	Digests map[pod.UID]string           `json:"digests,omitempty"`
	Origins map[string][]json.RawMessage `json:"origins"`
}

// load reads the state file. Entries that can't be used are left out.
func (l *lastGood) load(log *slog.Logger) memory {
	m := memory{accepted: map[string][]acceptedObject{}}
	if l.path == "" {
		return m
	}
	_ = statefile.Load(log, l.path, "not all of the last good pods are known", func(raw []byte) error {
		s, err := decodeState(raw)
		var unusable error
		m, unusable = l.decode(s)
		if err = errors.Join(err, unusable); err == nil {
			l.wrote = raw
		}
		return err
	})
	return m
}

// decodeState decodes a state file up to the first syntax error.
func decodeState(raw []byte) (stateFile, error) {
	var s stateFile
	d := json.NewDecoder(bytes.NewReader(raw))
	err := eachField(d, func(name string) error {
		switch name {
		case "version":
			return d.Decode(&s.Version)
		case "node":
			return d.Decode(&s.Node)
		case "mounted":
			return d.Decode(&s.Mounted)
		case "digests":
			return d.Decode(&s.Digests)
		case "origins":
			s.Origins = map[string][]json.RawMessage{}
			return eachField(d, func(origin string) error { return decodeOrigin(d, &s, origin) })
		default: // of another version
			return d.Decode(new(json.RawMessage))
		}
	})
	if err == nil && s.Version > stateVersion {
		err = fmt.Errorf("its version is %d, and %d is known: what a newer berth wrote beyond that is left out", s.Version, stateVersion)
	}
	return s, err
}

// decodeOrigin reads the objects of one manifest.
func decodeOrigin(d *json.Decoder, s *stateFile, origin string) error {
	if err := delimiter(d, '['); err != nil {
		return err
	}
	for d.More() {
		var object json.RawMessage
		if err := d.Decode(&object); err != nil {
			return err
		}
		s.Origins[origin] = append(s.Origins[origin], object)
	}
	return delimiter(d, ']')
}

// eachField calls read for each field of the JSON object that follows. A field of another type
// than expected is left out, and the error names it: the decoder stands behind it.
func eachField(d *json.Decoder, read func(name string) error) error {
	if err := delimiter(d, '{'); err != nil {
		return err
	}
	var unread error
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return errors.Join(unread, err)
		}
		if err := read(fmt.Sprint(name)); err != nil {
			unread = errors.Join(unread, fmt.Errorf("%v: %w", name, err))
			if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
				return unread
			}
		}
	}
	return errors.Join(unread, delimiter(d, '}'))
}

func delimiter(d *json.Decoder, want json.Delim) error {
	have, err := d.Token()
	if err == nil && have != want {
		err = fmt.Errorf("there is %v where %v should be", have, want)
	}
	return err
}

// decode turns a state file into accepted objects. The error names the entries that can't
// be used.
func (l *lastGood) decode(s stateFile) (memory, error) {
	m := memory{accepted: map[string][]acceptedObject{}, refused: map[string][]pod.Refusal{}}
	if s.Node != l.in.node {
		return m, nil // the pods of another node: this one was renamed
	}
	m.mounted = s.Mounted
	var unusable error
	for origin, objects := range s.Origins {
		for _, text := range objects {
			h, refused, err := l.in.restoreObject(origin, text)
			if err != nil {
				unusable = errors.Join(unusable, fmt.Errorf("an object of %s: %w", origin, err))
				continue
			}
			h.digest = s.Digests[h.GetUID()]
			m.accepted[origin] = append(m.accepted[origin], h)
			m.refused[origin] = append(m.refused[origin], refused...)
		}
	}
	return m, unusable
}

// restoreObject decodes an object of the state file. An object that this version of berth
// would refuse stays in force if every field of it can be read, and is shown as refused.
// Else it is kept as an unstructured object, of which only name and UID are used.
func (in intake) restoreObject(origin string, text []byte) (acceptedObject, []pod.Refusal, error) {
	o, problems := manifest.ParseStored(text)
	p, isPod := o.(*v1.Pod)
	if isPod {
		static, err := manifest.Static(p, in.node, in.source, origin)
		if err != nil {
			return acceptedObject{}, nil, err
		}
		o = static
	}
	var refused []pod.Refusal
	for _, problem := range problems {
		if o != nil {
			problem.Line = 0 // of the state file, not of the manifest
			problem.Message = "this version of berth refuses what an earlier one took in: " + problem.Message
			refused = append(refused, in.refuse(origin, problem, refOf(o), true))
		}
	}
	if o != nil {
		return acceptedObject{object: o}, refused, nil
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(text); err != nil {
		return acceptedObject{}, nil, err
	}
	if u.GetName() == "" || kindOf(u) == kindPod && u.GetUID() == "" {
		return acceptedObject{}, nil, errors.New("it has no name, or no UID")
	}
	return acceptedObject{object: u}, nil, nil
}

// refuseUnreadable is the refusal of an object that an earlier version of berth accepted and
// that this version can't read.
func (in intake) refuseUnreadable(origin string, h acceptedObject) pod.Refusal {
	message := "this version of berth can't read what an earlier one took in"
	if text, err := json.Marshal(h.object); err == nil {
		if _, problems := manifest.ParseStored(text); len(problems) > 0 {
			message += ": " + problems[0].Message
		}
	}
	r := in.refuse(origin, manifest.Problem{Kind: kindOf(h), Message: message}, refOf(h), true)
	if kindOf(h) == kindPod {
		r.UID = h.GetUID()
		r.Message += ". What runs of it goes on untouched, and is not started again"
	}
	return r
}

// save writes m if it differs from what is on disk. A crash at any moment leaves
// either the old file or the new one.
func (l *lastGood) save(m memory) error {
	if l.path == "" {
		return nil
	}
	raw, err := l.encode(m)
	if err != nil {
		return fmt.Errorf("encode the last good pods: %w", err)
	}
	if bytes.Equal(raw, l.wrote) {
		return nil
	}
	err = os.MkdirAll(filepath.Dir(l.path), 0o700)
	if err == nil {
		err = atomicfile.ReplaceForGood(l.path, raw, 0o600) // manifests may hold secrets
	}
	if err != nil {
		return fmt.Errorf("write the last good pods: %w", err)
	}
	l.wrote = raw
	return nil
}

func (l *lastGood) encode(m memory) ([]byte, error) {
	s := stateFile{
		Version: stateVersion, Node: l.in.node, Mounted: m.mounted, Digests: map[pod.UID]string{}, Origins: map[string][]json.RawMessage{},
	}
	for origin, inForce := range m.accepted {
		for _, h := range inForce {
			raw, err := json.Marshal(h.object)
			if err != nil {
				return nil, err
			}
			s.Origins[origin] = append(s.Origins[origin], raw)
			if h.digest != "" {
				s.Digests[h.GetUID()] = h.digest
			}
		}
	}
	return json.Marshal(s)
}
