package class

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"

	"rsc.io/qr"
)

// quiet is the width of the border that scanners need, in modules.
const quiet = 4

// WriteQR draws a QR code of text for a terminal, two modules in a character, black on white whatever the terminal's
// colours.
func WriteQR(w io.Writer, text string) error {
	picture, err := qr.Encode(text, qr.M)
	if err != nil {
		return fmt.Errorf("draw a QR code: %w", err)
	}
	var out strings.Builder
	for y := -quiet; y < picture.Size+quiet; y += 2 {
		out.WriteString("\x1b[30;47m")
		for x := -quiet; x < picture.Size+quiet; x++ {
			out.WriteString([]string{" ", "▀", "▄", "█"}[ink(picture, x, y)+2*ink(picture, x, y+1)])
		}
		out.WriteString("\x1b[0m\n")
	}
	_, err = io.WriteString(w, out.String())
	return err
}

// ink returns 1 for a black module, and 0 for a white one or outside the picture.
func ink(picture *qr.Code, x, y int) int {
	if picture.Black(x, y) {
		return 1
	}
	return 0
}

// svg draws a QR code of text as an SVG picture of one path.
func svg(text string) ([]byte, error) {
	picture, err := qr.Encode(text, qr.M)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	size := picture.Size + 2*quiet
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %[1]d" shape-rendering="crispEdges">`+
		`<rect width="%[1]d" height="%[1]d" fill="#fff"/><path d="`, size)
	for y := range picture.Size {
		for x := range picture.Size {
			if picture.Black(x, y) {
				fmt.Fprintf(&out, "M%d %dh1v1h-1z", x+quiet, y+quiet)
			}
		}
	}
	out.WriteString(`"/></svg>`)
	return out.Bytes(), nil
}

// joinPicture serves the QR code of the students' address.
func (c *Class) joinPicture(w http.ResponseWriter, _ *http.Request) {
	if c.school == nil {
		refuse(w, http.StatusNotFound, "no_students")
		return
	}
	picture, err := svg(c.JoinURL())
	if err != nil {
		refuse(w, http.StatusInternalServerError, "failed")
		return
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	_, _ = w.Write(picture)
}
