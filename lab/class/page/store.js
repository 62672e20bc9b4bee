/** The values of the class, by key: frames replace them. Times are Unix time in microseconds. Keys that name one of
 * many (t:r1.5) are kept by what comes before the colon: each frame asks for all of a kind, and there are hundreds of
 * other kinds. */
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

  /** The state of a server: that of the band in which it is not up, if there is one without an end. */
  stateOf = (server) => this.get(`faults:${server}`)?.findLast((band) => !band.to)?.state ?? 'up'

  /** All values of a kind, by the rest of their keys. */
  under(kind) {
    let map = this.kinds.get(kind)
    if (!map) this.kinds.set(kind, map = new Map())
    return map
  }
}
