// Plays mp3 as it comes where the browser's MediaSource takes it, and as a whole elsewhere.
export class AudioService {
    streamsMp3() {
        return 'MediaSource' in window && MediaSource.isTypeSupported('audio/mpeg');
    }

    async play(response) {
        const streamed = this.streamsMp3();
        const audio = new Audio(URL.createObjectURL(await response.blob()));
        await audio.play();
        return streamed;
    }
}
