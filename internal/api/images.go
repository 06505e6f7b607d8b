package api

import (
	"time"

	"berth/internal/lib/progress"
)

// The paths of the images of a node.
//
//	POST /v1/images/pull?image=NAME     a stream of ImageEvent, one per line
//	POST /v1/images/load?name=NAME      the body is an archive; a stream of ImageEvent
//	DELETE /v1/images?image=NAME        removes an unused image
//	POST /v1/images/gc                  GCReport, of what was removed to make room
//	POST /v1/images/gc?dryRun=1         GCReport, of what would be

// The queries of these requests.
const (
	QueryImage  = "image"
	QueryName   = "name" // of an archive: its images without one are called after it
	QueryDryRun = "dryRun"
	QueryAll    = "all" // whatever can be spared, however much room there is
)

// ImageStep says what an ImageEvent tells.
type ImageStep string

const (
	ImageComes  ImageStep = "COMES"  // so much of it is here; the total is 0 if it is not known
	ImageDone   ImageStep = "DONE"   // the last one, with the names of what is here now
	ImageFailed ImageStep = "FAILED" // the last one, with the error
)

// ImageEvent is one line of the answer to a pull, or a load.
type ImageEvent struct {
	Step ImageStep `json:"step"`
	progress.Progress
	Images []string `json:"images,omitempty"`
	Error  string   `json:"error,omitempty"`
}

// GCReport is the result of a round of garbage collection.
type GCReport struct {
	DryRun    bool     `json:"dryRun,omitempty"`
	Capacity  int64    `json:"capacity"` // of the file system of the images, in bytes
	Available int64    `json:"available"`
	High      int      `json:"high"` // percent
	Low       int      `json:"low"`
	Items     []GCItem `json:"items"` // images to be removed come first, in the order of removal
	Freed     int64    `json:"freed"` // bytes; what would be, if nothing was done
	Missing   int64    `json:"missing,omitempty"`
	Error     string   `json:"error,omitempty"` // why there is nothing else
}

// GCItem says whether an image is removed, and why.
type GCItem struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Size     int64      `json:"size"`
	Remove   bool       `json:"remove"`
	Message  string     `json:"why"`
	LastUsed *time.Time `json:"lastUsed,omitempty"`
}
