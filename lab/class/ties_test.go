package class

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"
)

// checkRoutes gives window.routes layouts of three instances, and returns what is wrong with the lines.
const checkRoutes = `(() => {
	const wrong = []
	let seed = 1
	const random = (n) => { // xorshift: the same layouts each time
		seed ^= seed << 13
		seed ^= seed >>> 17
		seed ^= seed << 5
		return (seed >>> 0) % n
	}
	const crossing = (p, q) => { // of two lines, each of two verticals and a horizontal
		const parts = ({ends: [a, b], y}) => [
			[a.x, y, a.x, a.y], [b.x, y, b.x, b.y], [Math.min(a.x, b.x), y, Math.max(a.x, b.x), y],
		]
		return parts(p).some((a) => parts(q).some((b) => a[0] <= b[2] && b[0] <= a[2] && a[1] <= b[3] && b[1] <= a[3]))
	}
	const see = (what, list, boxes) => {
		const lines = routes(list, boxes)
		if (lines.length < Math.min(1, list.length) || lines.length > 3) wrong.push(what + ': lines ' + lines.length)
		lines.forEach((one, i) => {
			one.pair.forEach((id, k) => {
				const [box, end] = [boxes.get(id), one.ends[k]]
				const on = end.y === box.y && end.x > box.x && end.x < box.x + box.width
				if (!on) wrong.push(what + ': no end on ' + id)
				if (one.y >= box.y && lines.length > 1) wrong.push(what + ': not above ' + id)
			})
			if (one.y < 22) wrong.push(what + ': no room for a text')
			for (const other of lines.slice(0, i)) {
				if (crossing(one, other)) wrong.push(what + ': ' + one.pair + ' crosses ' + other.pair)
				if (Math.abs(one.y - other.y) < 22) wrong.push(what + ': the texts are on each other')
			}
		})
		return lines
	}
	// The pairs of the first row, of the second, and of both. Four columns of boxes, two rows.
	const grid = new Map()
	for (let i = 0; i < 8; i++) {
		grid.set('b' + i, {x: 100 * (i % 4), y: 200 + 33 * Math.floor(i / 4), width: 95, height: 30})
	}
	const text = (end, box) => end.x > box.x + 11 && end.x < box.x + box.width - 11 && end.y > box.y
	for (const [list, want] of [
		[[], 0], [[['b0', 'b3']], 1], [[['b4', 'b7'], ['b0', 'b3'], ['b5', 'b6']], 3],
		[[['b0', 'b3'], ['b1', 'b2'], ['b4', 'b7'], ['b5', 'b6']], 3],
		[[['b0', 'b2'], ['b1', 'b3'], ['b4', 'b5']], 2], // the second would cross the first
		[[['b0', 'b1'], ['b1', 'b2'], ['b2', 'b3']], 3], // one order in two pairs
	]) {
		const what = JSON.stringify(list)
		const lines = see(what, list, grid)
		if (lines.length !== want) wrong.push(what + ': lines ' + lines.length)
		for (const end of lines.flatMap((l) => l.ends)) {
			if ([...grid.values()].some((box) => text(end, box))) wrong.push(what + ': a line crosses a text')
		}
	}
	const [only] = routes([['b0', 'b3']], grid)
	if (only.ends[0].x !== 47.5) wrong.push('a line that nothing hinders begins at ' + only.ends[0].x)
	for (let n = 0; n < 1000; n++) {
		const boxes = new Map()
		for (let app = 0; app < 3; app++) {
			for (let row = 0, y = 30 + random(300); row < 4; row++, y += 33) {
				for (let x = 420 * app; x < 420 * app + 300;) {
					const width = 66 + random(100)
					if (random(4) > 0) boxes.set('b' + boxes.size, {x, y, width, height: 30})
					x += width + 5
				}
			}
		}
		const ids = [...boxes.keys()]
		const list = Array.from({length: 1 + random(8)}, () => {
			const a = random(ids.length)
			return [ids[a], ids[(a + 1 + random(ids.length - 1)) % ids.length]]
		})
		see('layout ' + n, list, boxes)
	}
	return wrong.slice(0, 10)
})()`

// The lines that join orders never cross, reach both orders, pass beside the texts of the rows above, and have texts
// that are above each other.
func TestTiesDoNotCross(t *testing.T) {
	mux := http.NewServeMux()
	for _, name := range []string{"ties.js", "words.js"} {
		mux.HandleFunc("GET /"+name, asset(name))
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<script type="module">
			import { routes } from './ties.js'
			window.routes = routes
		</script>`))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s := look(t, server.URL)
	if err := chromedp.Do(s, chromedp.Navigate(server.URL+"/")); err != nil {
		t.Fatal(err)
	}
	s.until("the module is loaded", `window.routes`)
	if wrong := ask[[]string](s, checkRoutes); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
}
