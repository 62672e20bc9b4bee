// Plays the frames of a kept run, forward at any pace, and back.

export class Player {
  constructor(frames, store, changed) {
    this.frames = frames
    this.store = store
    this.changed = changed
    this.next = 0 // index of the next frame
    this.playing = false
    this.pace = 1
    const began = frames.find((f) => f.set.verdict?.known) ?? frames[0] // the first known stock
    this.from = began.at
    this.to = frames.at(-1).at
    this.now = this.from
  }

  /** Shows the state at a time. For an earlier time it replays from the beginning. */
  seek(at) {
    if (this.next > 0 && this.frames[this.next - 1].at > at) {
      this.store.forget()
      this.next = 0
    }
    while (this.next < this.frames.length && this.frames[this.next].at <= at) this.store.apply(this.frames[this.next++])
    this.now = Math.min(Math.max(at, this.from), this.to)
    this.changed()
  }

  /** Steps one event forward or back. */
  step(by) {
    this.playing = false
    const i = Math.min(Math.max(this.next - 1 + by, 0), this.frames.length - 1)
    this.seek(Math.max(this.frames[i].at, this.from))
  }

  /** Steps to the caption before or after. */
  leaf(by) {
    this.playing = false
    const frames = this.frames.filter((f) => f.set.caption && f.at > this.from)
    const to = by > 0 ? frames.find((f) => f.at > this.now) : frames.findLast((f) => f.at < this.now)
    if (to) this.seek(to.at)
  }

  play(on) {
    this.playing = on
    if (on && this.now >= this.to) this.seek(this.from)
    let last = performance.now()
    const tick = (time) => {
      if (!this.playing) return
      this.seek(this.now + (time - last) * 1000 * this.pace)
      last = time
      if (this.now >= this.to) this.playing = false
      else requestAnimationFrame(tick)
      this.changed()
    }
    if (on) requestAnimationFrame((time) => {
      last = time
      tick(time)
    })
    this.changed()
  }
}
