// Browsers start no worker for a page that comes from the disk. There a hidden frame does what the search asks of one.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inside = frame.contentWindow
      const load = address => new Promise((done, failed) => {
        const script = inside.document.createElement("script")
        Object.assign(script, { src: address, onload: done, onerror: failed })
        inside.document.body.append(script)
      })
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.importScripts = (...addresses) => Promise.all(addresses.map(load))
      this.inside = inside
      this.ready = load(new URL(url, location.href).href)
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.inside.frameElement.remove()
    }
  }
}
