// The values of a page and its two charts. Times are Unix time in microseconds.

/** The values of the class, by key: frames replace them. Keys that name one of many (t:r1.5) are kept by what comes
 * before the colon: each frame asks for all of a kind, and there are hundreds of other kinds. */
export class Store {
  values = new Map()
  kinds = new Map()

  apply(frame) {
    if (frame.set['']) this.forget()
    for (const [key, value] of Object.entries(frame.set)) {
      if (key === '') continue
      const [map, name] = this.where(key)
      if (value === null) map.delete(name)
      else map.set(name, value)
    }
  }

  forget() {
    this.values.clear()
    this.kinds.clear()
  }

  where(key) {
    const end = key.indexOf(':')
    return end < 0 ? [this.values, key] : [this.under(key.slice(0, end)), key.slice(end + 1)]
  }

  get(key) {
    const [map, name] = this.where(key)
    return map.get(name)
  }

  /** All values of a kind, by the rest of their keys. */
  under(kind) {
    let map = this.kinds.get(kind)
    if (!map) this.kinds.set(kind, map = new Map())
    return map
  }
}

const paints = new Map() // by theme and name; reading a colour from the page would force a recalculation of styles
const css = (name) => {
  const key = `${document.documentElement.dataset.theme} ${name}`
  if (!paints.has(key)) paints.set(key, getComputedStyle(document.documentElement).getPropertyValue(name).trim())
  return paints.get(key)
}

/** A canvas that is as sharp as the screen. Returns its context and size in CSS pixels. */
function sharpen(canvas) {
  const { width, height } = canvas.getBoundingClientRect()
  const ratio = devicePixelRatio || 1
  const w = Math.max(1, Math.round(width * ratio))
  const h = Math.max(1, Math.round(height * ratio))
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w
    canvas.height = h
  }
  const g = canvas.getContext('2d')
  g.setTransform(ratio, 0, 0, ratio, 0, 0)
  g.clearRect(0, 0, width, height)
  return { g, width, height }
}

/** Diagonal stripes in a colour, so that red areas are recognised without colour. */
const patterns = new Map()
function stripes(g, colour, paper) {
  const kept = patterns.get(colour + paper)
  if (kept) return kept
  const tile = document.createElement('canvas')
  tile.width = tile.height = 10
  const p = tile.getContext('2d')
  p.fillStyle = paper
  p.fillRect(0, 0, 10, 10)
  p.strokeStyle = colour
  p.lineWidth = 4
  for (const x of [-10, 0, 10]) {
    p.beginPath()
    p.moveTo(x, 10)
    p.lineTo(x + 10, 0)
    p.stroke()
  }
  const pattern = g.createPattern(tile, 'repeat')
  patterns.set(colour + paper, pattern)
  return pattern
}

/** The time that both charts show: from the start of the run to now, or to its end. */
export function span(store, now) {
  const run = store.get('run')
  const from = run?.at || now
  let last = from
  let open = false
  for (const [, token] of store.under('t')) {
    last = Math.max(last, token.ended || token.fired || 0)
    open ||= token.phase !== 'done'
  }
  for (const [, p] of store.under('p')) last = Math.max(last, p[0])
  for (const [, bands] of store.under('faults')) for (const b of bands) last = Math.max(last, b.from)
  return { from, now, to: Math.max(from + 1e6, open ? now : last + 0.04 * (last - from)) }
}

function axis(g, { from, to }, left, width, height, say) {
  const whole = (to - from) / 1e6
  const step = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500].find((s) => whole / s <= width / 110) ?? 1000
  g.fillStyle = css('--dim')
  g.strokeStyle = css('--soft')
  g.font = '18px system-ui, sans-serif'
  g.textBaseline = 'bottom'
  g.lineWidth = 1
  for (let s = 0; s <= whole; s += step) {
    const x = left + ((s * 1e6) / (to - from)) * (width - left)
    g.beginPath()
    g.moveTo(x, 0)
    g.lineTo(x, height - 24)
    g.stroke()
    const text = say(step < 1 ? s.toFixed(1) : String(s))
    if (x + g.measureText(text).width + 4 < width) g.fillText(text, x + 4, height - 2)
  }
}

/** Shaded bands for the times in which something was frozen, dead, slow or cut off: in the lane of an instance, or from
 * top to bottom. Returns a function that writes their names, which is to be called last. */
function bands(g, store, time, x, height, name, laneOf = () => [0, height - 24]) {
  const labels = []
  for (const [server, list] of store.under('faults')) {
    const [top, tall] = laneOf(server)
    for (const band of list) {
      const a = Math.max(x(band.from), x(time.from))
      const b = x(band.to || time.to)
      if (b <= a) continue
      g.fillStyle = css('--amber-fill')
      g.globalAlpha = 0.6
      g.fillRect(a, top, b - a, tall)
      g.globalAlpha = 1
      g.strokeStyle = css('--amber')
      g.setLineDash([5, 4])
      g.lineWidth = 2
      g.strokeRect(a + 1, top + 1, b - a - 2, tall - 2)
      g.setLineDash([])
      labels.push([name(server, band.state), a + 6, top + tall - 4])
    }
  }
  return () => {
    g.font = '600 17px system-ui, sans-serif'
    g.textBaseline = 'bottom'
    for (const [text, left, bottom] of labels) {
      const wide = g.measureText(text).width
      g.fillStyle = css('--paper')
      g.fillRect(left - 2, bottom - 20, wide + 4, 20)
      g.fillStyle = css('--amber')
      g.fillText(text, left, bottom)
    }
  }
}

/** The intervals with more than one stay, by segment. */
export function overlaps(holds) {
  const found = []
  for (const [segment, own] of Map.groupBy(holds, (h) => h.segment)) {
    const edges = own.flatMap((h) => [[h.from, 1], [h.to, -1]])
    edges.sort((a, b) => a[0] - b[0] || a[1] - b[1])
    let inside = 0
    let since = 0
    for (const [at, change] of edges) {
      inside += change
      if (change > 0 && inside === 2) since = at
      if (change < 0 && inside === 1 && at > since) found.push({ from: since, to: at, segment })
    }
  }
  return found
}

/** Whether two stays at once violate the strategy's promise. An atomic write needs no exclusion. */
export const excludes = (plan) => Boolean(plan && (plan.exclusive || plan.scope !== 'cluster'))

/** Draws who was in the critical section when, with a lane for each instance. Returns the numbers of what it drew. */
export function drawHolds(canvas, store, apps, time, say, name) {
  const { g, width, height } = sharpen(canvas)
  const left = 74
  axis(g, time, left, width, height, say)
  const x = (at) => left + ((at - time.from) / (time.to - time.from)) * (width - left - 4)
  const lane = (height - 26) / apps.length
  const label = bands(g, store, time, x, height, name, (server) => {
    const i = apps.indexOf(server)
    return i < 0 ? [0, height - 26] : [lane * i, lane]
  })
  const plan = store.get('run')?.plan
  const all = []
  for (const [, token] of store.under('t')) {
    for (const h of token.holds ?? []) {
      all.push({ from: h.from, to: h.to || Math.max(h.from, Math.min(time.now, time.to)), open: !h.to, segment: h.segment ?? 0, app: token.app, n: token.n })
    }
  }
  const found = excludes(plan) ? overlaps(all) : []
  const red = Map.groupBy(found, (o) => o.segment)
  const hatch = stripes(g, css('--red'), css('--paper'))
  apps.forEach((app, i) => {
    g.fillStyle = css('--ink')
    g.font = '600 18px system-ui, sans-serif'
    g.textBaseline = 'middle'
    g.fillText(app, 6, lane * (i + 0.5))
    g.strokeStyle = css('--soft')
    g.beginPath()
    g.moveTo(0, lane * (i + 1))
    g.lineTo(width, lane * (i + 1))
    g.stroke()
    const own = all.filter((h) => h.app === app).sort((a, b) => a.from - b.from)
    const ends = []
    for (const h of own) { // each in the first free row
      let row = ends.findIndex((end) => end <= h.from)
      if (row < 0) row = ends.push(0) - 1
      ends[row] = h.to
      h.row = row
    }
    const thick = Math.min(26, (lane - 6) / Math.max(1, ends.length))
    for (const h of own) {
      const top = lane * i + 3 + h.row * thick
      const a = x(h.from)
      const w = Math.max(2, x(h.to) - a)
      const tall = Math.max(1.5, thick - 2)
      g.fillStyle = css('--bar')
      g.fillRect(a, top, w, tall)
      for (const o of red.get(h.segment) ?? []) {
        if (o.to <= h.from) continue
        if (o.from >= h.to) break // sorted
        const b = x(Math.max(o.from, h.from))
        g.fillStyle = hatch
        g.fillRect(b, top, Math.max(1, x(Math.min(o.to, h.to)) - b), tall)
      }
      if (tall > 5) {
        g.strokeStyle = css('--bar-edge')
        g.lineWidth = 1
        g.strokeRect(a + 0.5, top + 0.5, w - 1, tall - 1)
      }
    }
  })
  g.fillStyle = css('--amber')
  for (const [app, lease] of Object.entries(store.get('leases') ?? {})) { // a tick for each renewal
    const top = lane * apps.indexOf(app) + 2
    for (const tick of lease.ticks ?? []) if (tick >= time.from) g.fillRect(x(tick) - 1.5, top, 3, Math.min(16, lane - 4))
  }
  label()
  const microseconds = found.reduce((sum, o) => sum + o.to - o.from, 0)
  const open = all.filter((h) => h.open)
  return { holds: all.length, overlap: microseconds / 1e6, ahead: open.some((h) => h.to > time.now) }
}

/** Draws the stock over time, as written and as it should be. */
export function drawLine(canvas, store, time, say, name) {
  const { g, width, height } = sharpen(canvas)
  const left = 58
  axis(g, time, left, width, height, say)
  const points = [...store.under('p')].sort((a, b) => a[0] - b[0]).map(([, p]) => p).filter((p) => p[0] >= time.from)
  const x = (at) => left + ((at - time.from) / (time.to - time.from)) * (width - left - 4)
  const label = bands(g, store, time, x, height, name)
  label()
  if (points.length === 0) return
  const known = points.filter((p) => p[3])
  const most = Math.max(1, ...known.map((p) => Math.max(p[1], p[2])))
  const least = Math.min(0, ...known.map((p) => Math.min(p[1], p[2])))
  const y = (n) => 14 + ((most - n) / (most - least)) * (height - 26 - 26)
  g.fillStyle = css('--dim')
  g.font = '18px system-ui, sans-serif'
  g.textBaseline = 'middle'
  for (const n of new Set([most, 0, least])) {
    g.fillText(String(n), 6, y(n))
    g.strokeStyle = css('--soft')
    g.beginPath()
    g.moveTo(left, y(n))
    g.lineTo(width, y(n))
    g.stroke()
  }
  const draw = (column, colour, dash) => {
    g.strokeStyle = colour
    g.lineWidth = 4
    g.setLineDash(dash)
    g.beginPath()
    known.forEach((p, i) => {
      if (i > 0) g.lineTo(x(p[0]), y(known[i - 1][column]))
      g.lineTo(x(p[0]), y(p[column]))
    })
    g.lineTo(x(time.to), y(known.at(-1)[column]))
    g.stroke()
    g.setLineDash([])
  }
  if (known.length > 0) {
    draw(1, css('--blue'), [])
    draw(2, css('--red'), [9, 6])
  }
}
