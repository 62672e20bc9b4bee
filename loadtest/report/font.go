package report

import (
	"os"
	"strings"
	"sync"

	"golang.org/x/image/font/opentype"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/text"

	"example.com/stock/internal/words"
)

// A fontFile is a font file, and the index of the font in it.
type fontFile struct {
	path string
	face int
}

// chineseFonts returns where systems have fonts with Chinese characters, and the face of simplified Chinese in a
// collection. None is embedded, because each has 10 MB.
func chineseFonts() []fontFile {
	return []fontFile{
		{"/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc", 2},
		{"/usr/share/fonts/noto-cjk/NotoSansCJK-Regular.ttc", 2},
		{"/usr/share/fonts/google-noto-cjk/NotoSansCJK-Regular.ttc", 2},
		{"/usr/share/fonts/truetype/wqy/wqy-microhei.ttc", 0},
		{"/System/Library/Fonts/PingFang.ttc", 0},
		{"/System/Library/Fonts/STHeiti Light.ttc", 0},
		{`C:\Windows\Fonts\msyh.ttc`, 0},
	}
}

// chineseFont returns the first installed of the fonts, or nil.
var chineseFont = sync.OnceValue(func() *opentype.Font {
	for _, file := range chineseFonts() {
		content, err := os.ReadFile(file.path)
		if err != nil {
			continue
		}
		collection, err := opentype.ParseCollection(content)
		if err != nil || collection.NumFonts() <= file.face {
			continue
		}
		if f, err := collection.Font(file.face); err == nil {
			return f
		}
	}
	return nil
})

// speakChinese makes a picture with Chinese text use a font for it. SVG needs none, because the viewer supplies it.
func (c *chart) speakChinese() {
	said := c.title + c.X.Label.Text + c.Y.Label.Text
	for _, e := range c.legend {
		said += e.name
	}
	found := chineseFont()
	if found == nil || !strings.ContainsFunc(said, words.Wide) {
		return
	}
	name := font.Font{Typeface: "Chinese"}
	cache := font.NewCache(append(liberation.Collection(), font.Face{Font: name, Face: found}))
	handler := text.Plain{Fonts: cache}
	c.TextHandler = handler
	for _, style := range []*text.Style{
		&c.Title.TextStyle, &c.Legend.TextStyle, &c.X.Label.TextStyle, &c.Y.Label.TextStyle, &c.X.Tick.Label,
		&c.Y.Tick.Label,
	} {
		style.Font, style.Handler = font.From(name, style.Font.Size), handler
	}
}
