package class

import (
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

// joinPicture serves the QR code of the students' address.
func (c *Class) joinPicture(w http.ResponseWriter, _ *http.Request) {
	if c.school == nil {
		refuse(w, http.StatusNotFound, "no_students")
		return
	}
	picture, err := qr.Encode(c.JoinURL(), qr.M)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "failed")
		return
	}
	w.Header().Set("Content-Type", "image/png")
	_, _ = w.Write(picture.PNG())
}
