// The transcription of one file: its upload, its progress and its lines.

export class FileSession {
  #server;
  #file;
  #options;
  #showProgress;
  #abort = new AbortController();
  #duration;

  /** `showProgress` takes a share, null for an unknown one, and undefined at the end. */
  constructor(server, file, options, showProgress) {
    this.#server = server;
    this.#file = file;
    this.#options = options;
    this.#showProgress = showProgress;
    this.#duration = durationOf(file);
  }

  get stopped() {
    return this.#abort.signal.aborted;
  }

  /**
   * Transcribe the file; `events` has status(text) and line({text, start_s, end_s}).
   *
   * Throws the error that ended it; the lines until then are kept.
   */
  async run(events) {
    this.#showProgress(0);
    const uploadEvents = {
      sent: (share) => this.#showSent(share, events.status),
      segment: (segment) => {
        events.line(segment);
        this.#showTranscribed(segment.end_s, events.status);
      },
    };
    try {
      const { signal } = this.#abort;
      await this.#server.transcribe(this.#file, this.#options, uploadEvents, signal);
    } finally {
      if (!this.stopped) this.#showProgress();
    }
  }

  /** Cancel it; the server cancels its work as well. */
  stop() {
    this.#showProgress();
    this.#abort.abort();
  }

  #showSent(share, status) {
    if (this.stopped) return;
    this.#showProgress(share < 1 ? share : null);
    if (share < 1) status(`Sending ${this.#file.name}: ${quartersOf(share)}.`);
    else status("Transcribing…");
  }

  // Browsers cannot determine the duration of some files.
  #showTranscribed(end_s, status) {
    if (this.stopped || !this.#duration.seconds) return;
    const share = Math.min(1, end_s / this.#duration.seconds);
    this.#showProgress(share);
    status(`Transcribing: ${quartersOf(share)}.`);
  }
}

// In steps of a quarter: screen readers read each change aloud.
function quartersOf(share) {
  return `${25 * Math.floor(4 * share)} %`;
}

// Returns `{seconds}`, null until the browser has read the file's header.
function durationOf(file) {
  const duration = { seconds: null };
  const element = new Audio();
  element.preload = "metadata";
  element.src = URL.createObjectURL(file);
  const release = () => URL.revokeObjectURL(element.src);
  element.onloadedmetadata = () => {
    if (Number.isFinite(element.duration)) duration.seconds = element.duration;
    release();
  };
  element.onerror = release;
  return duration;
}
