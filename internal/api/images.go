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
//	POST /v1/images/gc                  GCReport, of the removed images
//	POST /v1/images/gc?dryRun=1         GCReport, of the images that would be removed

// The queries of these requests.
const (
	QueryImage  = "image"
	QueryName   = "name" // of an archive: images in it without a name are named after it
	QueryDryRun = "dryRun"
	QueryAll    = "all" // all unused images, however much room there is
)

// ImageStep is the type of an ImageEvent.
type ImageStep string

const (
	ImageProgress ImageStep = "COMES"  // with the progress of the transfer
	ImageDone     ImageStep = "DONE"   // the last event, with the names of the images
	ImageFailed   ImageStep = "FAILED" // the last event, with the error
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
	Freed     int64    `json:"freed"` // bytes; with DryRun, those that would be freed
	Missing   int64    `json:"missing,omitempty"`
	Error     string   `json:"error,omitempty"` // the other fields are not set
}

// GCItem is the decision about an image: whether it is removed, and the reason in Message.
type GCItem struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Size     int64      `json:"size"`
	Remove   bool       `json:"remove"`
	Message  string     `json:"why"`
	LastUsed *time.Time `json:"lastUsed,omitempty"`
}
